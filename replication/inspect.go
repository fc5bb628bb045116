package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/fault"
)

// Inspection is what a person may want to know of a slot.
type Inspection struct {
	// Slot is the row of pg_replication_slots, with all columns that the version has.
	Slot json.RawMessage `json:"slot"`
	// Holder says who holds the slot; empty: nobody.
	Holder string `json:"held_by"`
	// UnconfirmedBytes is the log that the slot has still to send, RetainedBytes the log that the server keeps for it.
	UnconfirmedBytes int64 `json:"unconfirmed_bytes"`
	RetainedBytes    int64 `json:"retained_bytes"`
	// Publication is the publication that walrelay would read with.
	Publication InspectedPublication `json:"publication"`
	// Checkpoint is the slot's row in walrelay.checkpoint, null where there is none.
	Checkpoint json.RawMessage `json:"checkpoint"`
}

// InspectedPublication is the part about the publication.
type InspectedPublication struct {
	Name   string `json:"name"`
	Exists bool   `json:"exists"`
	// Passed: it is older than everything that the slot has still to send, see the function Passed.
	Passed bool `json:"passed_by_slot"`
}

// Inspect looks at a slot from all sides. Any role may.
func Inspect(ctx context.Context, conn *pgx.Conn, slot, publication string) (*Inspection, error) {
	i := Inspection{Publication: InspectedPublication{Name: publication}, Checkpoint: json.RawMessage("null")}
	var version int
	// A standby has no insert position, and a physical slot or one that is being made no positions of its own.
	err := conn.QueryRow(ctx, `
		SELECT row_to_json(s), current_setting('server_version_num')::integer,
		       coalesce(log.ends - confirmed_flush_lsn, 0)::bigint, coalesce(log.ends - restart_lsn, 0)::bigint
		FROM pg_replication_slots s,
		     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS ends) log
		WHERE slot_name = $1`, slot).Scan(&i.Slot, &version, &i.UnconfirmedBytes, &i.RetainedBytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &SetupError{
			Code:    fault.SlotMissing,
			Problem: fmt.Sprintf("slot %s does not exist", slot),
			Remedy:  "walrelay init makes it; or name another one in postgres.slot (SELECT slot_name FROM pg_replication_slots)",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("inspect slot %s: %w", slot, err)
	}
	if i.Holder, err = Holder(ctx, conn, slot); err != nil {
		return nil, err
	}
	p, err := FindPublication(ctx, conn, version, publication)
	if err != nil {
		return nil, err
	}
	if p != nil {
		i.Publication.Exists = true
		if i.Publication.Passed, err = Passed(ctx, conn, slot, p); err != nil {
			return nil, err
		}
	}
	return &i, i.checkpoint(ctx, conn, slot)
}

// checkpoint reads the slot's row, also where the schema is absent.
func (i *Inspection) checkpoint(ctx context.Context, conn *pgx.Conn, slot string) error {
	var exists bool
	err := conn.QueryRow(ctx, `SELECT to_regclass('walrelay.checkpoint') IS NOT NULL`).Scan(&exists)
	if err == nil && exists {
		err = conn.QueryRow(ctx, `SELECT row_to_json(c) FROM walrelay.checkpoint c WHERE slot = $1`, slot).Scan(&i.Checkpoint)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the row of slot %s in walrelay.checkpoint: %w", slot, err)
	}
	return nil
}
