package replication

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/lsn"
)

// Watch is what the server says of a slot at one moment: whether it works, what it costs, and what is in danger.
type Watch struct {
	// Slot is nil where there is none of that name.
	Slot *Slot
	// End is the end of the server's log. Unconfirmed and Retained are the bytes from the slot's two positions to it: what is
	// not confirmed, and what the server keeps.
	End                   lsn.End
	Unconfirmed, Retained int64
	// KeepLimit is max_slot_wal_keep_size in bytes: what the slot may hold back before it is lost. Negative: no limit.
	KeepLimit int64
	// CatalogAge is how many transaction ids old the rows of the catalog are that the slot keeps from being vacuumed.
	CatalogAge int64
	// Decoding counts since the server's statistics were reset.
	Decoding Decoding
	// Pins are the oldest write transactions of the server. The log since their begin must be kept, whatever is confirmed.
	Pins []Pin
	// SynchronousStandbyNames is the setting of that name, see WaitsFor.
	SynchronousStandbyNames string
}

// Decoding is the slot's row of pg_stat_replication_slots.
type Decoding struct {
	// Transactions and Bytes that were decoded for the stream.
	Transactions int64 `json:"total_txns"`
	Bytes        int64 `json:"total_bytes"`
	// SpilledTransactions did not fit logical_decoding_work_mem; SpilledBytes were written to disk for them, in Spills steps.
	SpilledTransactions int64 `json:"spill_txns"`
	Spills              int64 `json:"spill_count"`
	SpilledBytes        int64 `json:"spill_bytes"`
}

// Pin is a transaction that the server's log must be kept for.
type Pin struct {
	// PID is its process, and User and Application who that is. A prepared transaction has no process, but a name.
	PID         int32  `json:"pid,omitempty"`
	User        string `json:"user,omitempty"`
	Application string `json:"application,omitempty"`
	Prepared    string `json:"prepared,omitempty"`
	// State is that of the process, such as "idle in transaction".
	State string `json:"state,omitempty"`
	// Begun is when the transaction began, QueryStart when its last statement did. The statement's text is left out: it may
	// have data in it.
	Begun      time.Time `json:"begun"`
	QueryStart time.Time `json:"query_start,omitzero"`
}

// String names the transaction and what ends it.
func (p Pin) String() string {
	begun := p.Begun.UTC().Format(time.RFC3339)
	if p.Prepared != "" {
		return fmt.Sprintf("prepared transaction %s of %s, since %s (ROLLBACK PREPARED '%s'; or COMMIT PREPARED)", p.Prepared, p.User, begun, p.Prepared)
	}
	return fmt.Sprintf("pid %d (%s, %q, %s), transaction since %s, query since %s (SELECT pg_terminate_backend(%d);)",
		p.PID, p.User, p.Application, p.State, begun, p.QueryStart.UTC().Format(time.RFC3339), p.PID)
}

// A standby has no insert position, and a slot that is being made or lost has no positions of its own.
const watchSQL = `
	SELECT (SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = $1),
	       log.ends::text,
	       coalesce((SELECT log.ends - confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1), 0)::bigint,
	       coalesce((SELECT log.ends - restart_lsn FROM pg_replication_slots WHERE slot_name = $1), 0)::bigint,
	       (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
	       coalesce((SELECT age(catalog_xmin) FROM pg_replication_slots WHERE slot_name = $1), 0)::bigint,
	       coalesce((SELECT to_jsonb(t) FROM pg_stat_replication_slots t WHERE slot_name = $1), '{}'),
	       current_setting('synchronous_standby_names')
	FROM (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS ends) log`

// pinsSQL finds transactions that have written. Without pg_read_all_stats (part of pg_monitor) only our own role's show.
const pinsSQL = `
	SELECT coalesce(pid, 0), coalesce(usename, ''), coalesce(application_name, ''), '', coalesce(state, ''), xact_start,
	       coalesce(query_start, xact_start)
	FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start < now() - $1::interval
	UNION ALL
	SELECT 0, owner, '', gid, '', prepared, prepared FROM pg_prepared_xacts WHERE prepared < now() - $1::interval
	ORDER BY 6 LIMIT $2`

// PinAge is how old a transaction is before Watch names it; it names at most maxPins.
const (
	PinAge  = time.Minute
	maxPins = 3
)

// WatchSlot asks the server about a slot. Any role may; who pins the log is told only to members of pg_monitor.
func WatchSlot(ctx context.Context, conn *pgx.Conn, slot string) (*Watch, error) {
	var w Watch
	var found, decoding []byte
	var end string
	var megabytes int64
	err := conn.QueryRow(ctx, watchSQL, slot).Scan(&found, &end, &w.Unconfirmed, &w.Retained, &megabytes, &w.CatalogAge,
		&decoding, &w.SynchronousStandbyNames)
	if err == nil && found != nil {
		err = json.Unmarshal(found, &w.Slot)
	}
	if err == nil {
		err = json.Unmarshal(decoding, &w.Decoding)
	}
	if err == nil {
		w.End, err = lsn.ParseEnd(end)
	}
	if err == nil {
		w.KeepLimit = megabytes << 20
		w.Pins, err = pins(ctx, conn, PinAge, maxPins)
	}
	if err != nil {
		return nil, fmt.Errorf("watch slot %s: %w", slot, err)
	}
	return &w, nil
}

func pins(ctx context.Context, conn *pgx.Conn, age time.Duration, most int) ([]Pin, error) {
	rows, err := conn.Query(ctx, pinsSQL, age, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Pin, err error) {
		err = row.Scan(&p.PID, &p.User, &p.Application, &p.Prepared, &p.State, &p.Begun, &p.QueryStart)
		return p, err
	})
}
