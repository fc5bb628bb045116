package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
)

// firstWithFailover is the first version with failover slots.
const firstWithFailover = 170000

// Slot is a logical replication slot as pg_replication_slots has it. What a version does not have stays zero.
type Slot struct {
	Name     string `json:"slot_name"`
	Plugin   string `json:"plugin"`
	Type     string `json:"slot_type"`
	Database string `json:"database"`
	// Temporary: it ends with the session that made it.
	Temporary bool `json:"temporary"`
	TwoPhase  bool `json:"two_phase"`
	// ActivePID is the process that holds the slot; 0: nobody.
	ActivePID int32 `json:"active_pid"`
	// RestartLSN: WAL is kept from here on. ConfirmedFlushLSN: what commits from here on is sent. Empty: none (yet).
	RestartLSN        string `json:"restart_lsn"`
	ConfirmedFlushLSN string `json:"confirmed_flush_lsn"`
	// WALStatus is reserved, extended, unreserved or lost.
	WALStatus string `json:"wal_status"`
	// SafeWALSize is how many bytes may be written until the slot is in danger; nil: no limit, or lost already.
	SafeWALSize *int64 `json:"safe_wal_size"`
	// Conflicting (16 and later) and InvalidationReason (17 and later) tell that the slot can never be used again.
	Conflicting        bool   `json:"conflicting"`
	InvalidationReason string `json:"invalidation_reason"`
	// Failover: the slot goes along to standbys. Synced: it came from a primary; means nothing on a primary (17 and
	// later, both).
	Failover bool `json:"failover"`
	Synced   bool `json:"synced"`
}

// InspectSlot looks a slot up. Names are unique in the whole cluster, so that it may belong to another database. Nil
// when there is none.
func InspectSlot(ctx context.Context, conn *pgx.Conn, name string) (*Slot, error) {
	var text []byte
	err := conn.QueryRow(ctx, `SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = $1`, name).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	var slot Slot
	if err == nil {
		err = json.Unmarshal(text, &slot)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect slot %s: %w", name, err)
	}
	return &slot, nil
}

// ErrSlotUnfinished: the slot is still being made. Its maker waits for the write transactions that were running, and
// the slot vanishes by itself if the maker ends first.
var ErrSlotUnfinished = errors.New("the slot is still being made")

// Usable tells whether a relay of the database can stream from the slot, now or when its holder lets go.
func (s *Slot) Usable(database string) error {
	refuse := func(code fault.Code, problem, remedy string) error {
		return &SetupError{Code: code, Problem: fmt.Sprintf("slot %s %s", s.Name, problem), Remedy: remedy}
	}
	foreign := func(problem string) error {
		return refuse(fault.SlotForeign, problem, "choose another name in postgres.slot")
	}
	lost := func(problem string) error {
		return refuse(fault.SlotLost, problem, "events may be missing; see which and restore them: walrelay repair")
	}
	switch {
	case s.Type != "logical":
		return foreign("is a " + s.Type + " slot")
	case s.Database != database:
		return foreign(fmt.Sprintf("belongs to the database %s, not to %s (slot names are unique in the whole cluster)",
			s.Database, database))
	case s.Plugin != "pgoutput":
		return foreign(fmt.Sprintf("uses the plugin %s, not pgoutput", s.Plugin))
	case s.Temporary:
		return foreign("is temporary")
	case s.TwoPhase:
		return foreign("is a two-phase slot, which sends transactions that may still be rolled back")
	case s.InvalidationReason != "":
		return lost(fmt.Sprintf("was invalidated (%s)", s.InvalidationReason))
	case s.WALStatus == "lost":
		return lost("has lost WAL that it needs (max_slot_wal_keep_size)")
	case s.Conflicting:
		return lost("was invalidated by a conflict with recovery")
	case s.ConfirmedFlushLSN == "":
		return fmt.Errorf("slot %s, process %d: %w", s.Name, s.ActivePID, ErrSlotUnfinished)
	}
	return nil
}

// slotNames is the rule of Postgres for names of slots.
var slotNames = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// CheckSlotName tells whether Postgres takes the name for a slot.
func CheckSlotName(name string) error {
	if slotNames.MatchString(name) {
		return nil
	}
	return &SetupError{
		Code:    fault.SlotName,
		Problem: fmt.Sprintf("slot name %q is not allowed", name),
		Remedy:  "use 1 to 63 characters out of a-z, 0-9 and _",
	}
}

// DefaultSlot is walrelay_<database>, with what a slot's name may not have replaced by _.
func DefaultSlot(database string) string {
	name := "walrelay_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		if slotNames.MatchString(string(r)) {
			return r
		}
		return '_'
	}, database)
	return name[:min(len(name), 63)]
}

// CreateSlot makes a logical slot for pgoutput and exports the snapshot of its start: what is committed in the
// snapshot is not sent by the slot, everything else is. The snapshot can be used by others until the next command on
// this connection or its end.
//
// Postgres waits for all write transactions that are running. When ctx ends first, the connection is closed and no
// slot is left.
func (c *Conn) CreateSlot(ctx context.Context, name string, failover bool) (consistent lsn.End, snapshot string, err error) {
	action := "EXPORT_SNAPSHOT" // the one spelling that 14 knows
	if failover {
		action = "(SNAPSHOT 'export', FAILOVER)"
	}
	created, err := pglogrepl.CreateReplicationSlot(ctx, c.pg, quote(name), "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Mode: pglogrepl.LogicalReplication, SnapshotAction: action})
	if err == nil {
		consistent, err = lsn.ParseEnd(created.ConsistentPoint)
	}
	if err != nil {
		return 0, "", fmt.Errorf("create slot %s: %w", name, err)
	}
	return consistent, created.SnapshotName, nil
}

// DropSlot drops a slot that nobody holds.
func DropSlot(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, `SELECT pg_drop_replication_slot($1)`, name); err != nil {
		return fmt.Errorf("drop slot %s: %w", name, err)
	}
	return nil
}
