package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/replication"
)

// slotView is what the server says of the slot. It is made anew at each look and never changed.
type slotView struct {
	name   string
	watch  *replication.Watch // nil before the first look
	status *SlotStatus        // the same for people; nil as well
}

// SlotStatus is what the server says of the slot, as of the last look (every ten seconds).
type SlotStatus struct {
	// At is the time of the look.
	At time.Time `json:"at"`
	// WALStatus is reserved, extended, unreserved or lost, as the server has it, or missing where there is no such slot.
	// Invalidation is why it can never be used again (17 and later).
	WALStatus    string `json:"wal_status"`
	Invalidation string `json:"invalidation_reason,omitempty"`
	// Active: somebody streams from it.
	Active bool `json:"active"`
	// RestartLSN and ConfirmedLSN are its positions: the log is kept from the first on, and sent from the second on.
	RestartLSN   string `json:"restart_lsn,omitempty"`
	ConfirmedLSN string `json:"confirmed_flush_lsn,omitempty"`
	// RetainedBytes is the log that the server keeps for it, LimitBytes what it may keep (max_slot_wal_keep_size; 0: no limit),
	// and SafeBytes what may still be written until the slot is in danger (null: no limit, or lost).
	RetainedBytes int64  `json:"retained_bytes"`
	LimitBytes    int64  `json:"limit_bytes"`
	SafeBytes     *int64 `json:"safe_bytes"`
	// RestartAge is how long ago the log passed RestartLSN, in seconds, as far as that was watched.
	RestartAge float64 `json:"restart_age_seconds"`
	// CatalogAge is how many transaction ids old the catalog rows are that the slot keeps from being vacuumed.
	CatalogAge int64 `json:"catalog_age"`
	// Failover: it goes along to standbys. Synced: it came from a primary (17 and later, both).
	Failover bool `json:"failover"`
	Synced   bool `json:"synced"`
	// Decoding counts since the server's statistics were reset.
	Decoding replication.Decoding `json:"decoding"`
	// Pins are the oldest write transactions, which keep the log whatever is confirmed.
	Pins []replication.Pin `json:"pins"`
	// Finding is how much in danger the slot is, and what to do.
	Finding SlotFinding `json:"finding"`
}

// finding is the level of the last look; empty before the first.
func (v *slotView) finding() SlotFinding {
	if v.status == nil {
		return SlotFinding{}
	}
	return v.status.Finding
}

// missing is the WALStatus of a slot that does not exist.
const missing = "missing"

// walStatuses are all values of WALStatus.
var walStatuses = []string{"reserved", "extended", "unreserved", "lost", missing}

func slotStatus(w *replication.Watch, at time.Time, age time.Duration) *SlotStatus {
	s := &SlotStatus{
		At: at, WALStatus: missing, RetainedBytes: max(0, w.Retained), LimitBytes: max(0, w.KeepLimit),
		RestartAge: age.Seconds(), CatalogAge: w.CatalogAge, Decoding: w.Decoding, Pins: w.Pins,
	}
	if slot := w.Slot; slot != nil {
		s.WALStatus, s.Invalidation, s.Active = slot.WALStatus, slot.InvalidationReason, slot.ActivePID != 0
		s.RestartLSN, s.ConfirmedLSN, s.SafeBytes = slot.RestartLSN, slot.ConfirmedFlushLSN, slot.SafeWALSize
		s.Failover, s.Synced = slot.Failover, slot.Synced
	}
	return s
}

// AskSlot asks the server about a slot where there is no relay to ask.
func AskSlot(ctx context.Context, conn *pgx.Conn, cfg Config, slot string) (*SlotStatus, error) {
	watch, err := replication.WatchSlot(ctx, conn, slot)
	if err != nil {
		return nil, err
	}
	s := slotStatus(watch, time.Now(), 0)
	s.Finding = cfg.withDefaults().SlotWatch.Judge(slot, watch)
	return s, nil
}
