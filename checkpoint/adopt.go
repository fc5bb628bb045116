package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Adoption is what a person allows when a slot is taken over.
type Adoption struct {
	// MatchByID: the one before has published without our positions, see Row.MatchByID.
	MatchByID bool
	// NewKafkaCluster: events may go to another Kafka cluster from here on. Without it the row's cluster stays.
	NewKafkaCluster bool
}

// adoptSQL takes the slot's own position, unless the row's is newer and of the same system. The epoch rises, so that a
// relay of before cannot save.
const adoptSQL = `WITH server AS (` + serverSQL + `)
	INSERT INTO walrelay.checkpoint AS c (slot, state, system_id, timeline, lsn, match_by_id)
	SELECT $1::text, 'ready', s.system_id, s.timeline, slot.confirmed_flush_lsn, $2
	FROM server s, pg_replication_slots slot WHERE slot.slot_name = $1::text AND slot.active_pid IS NULL
	ON CONFLICT (slot) DO UPDATE
	SET system_id = excluded.system_id, timeline = excluded.timeline, saved_at = now(),
	    state = CASE WHEN c.system_id = excluded.system_id AND c.state <> 'drained' THEN c.state ELSE 'ready' END,
	    lsn = CASE WHEN c.system_id = excluded.system_id THEN greatest(c.lsn, excluded.lsn) ELSE excluded.lsn END,
	    commit_time = CASE WHEN c.system_id = excluded.system_id THEN c.commit_time END,
	    horizon = CASE WHEN c.system_id = excluded.system_id THEN c.horizon END,
	    horizon_lsn = CASE WHEN c.system_id = excluded.system_id THEN c.horizon_lsn END,
	    horizon_time = CASE WHEN c.system_id = excluded.system_id THEN c.horizon_time END, publication = NULL,
	    run_epoch = c.run_epoch + 1,
	    kafka_cluster_id = CASE WHEN NOT $3 THEN c.kafka_cluster_id END,
	    producer_id = CASE WHEN NOT $3 AND c.system_id = excluded.system_id THEN c.producer_id END,
	    match_by_id = excluded.match_by_id, ceiling = NULL
	WHERE c.state IN ('ready', 'clean', 'drained')
	RETURNING ` + columns

// Adopt writes the row of a slot that somebody else has used, at the position that the slot has now, and returns it.
// Nobody may hold the slot. A row that is there is taken over with it, also one of another system.
//
// Whether the slot can be read from there, and with which publication, is not looked at.
func (s *Store) Adopt(ctx context.Context, slot string, a Adoption) (Row, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return Row{}, fmt.Errorf("adopt slot %q: %w", slot, err)
	}
	row, err := scan(conn.QueryRow(ctx, adoptSQL, slot, a.MatchByID, a.NewKafkaCluster))
	if errors.Is(err, pgx.ErrNoRows) {
		err = explain(ctx, conn, Row{Slot: slot}, []check{unlessHalfMade, slotHeld})
	}
	if err != nil {
		return Row{}, fmt.Errorf("adopt slot %q: %w", slot, err)
	}
	return row, nil
}

func unlessHalfMade(want Row, have found) *RefusedError {
	if !have.exists {
		return nil
	}
	return inUse(want, have)
}

// slotHeld is what remains.
func slotHeld(Row, found) *RefusedError {
	return &RefusedError{GuardSlot, "somebody holds the slot, or it is gone", "stop who holds it"}
}
