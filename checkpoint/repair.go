package checkpoint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// BeginRepair puts the row into the state repairing, in which no relay can claim it, and raises the epoch, so that none
// that is still under way can save, also later. Position and horizon stay what they are until EndRepair, so that a repair
// that was interrupted begins anew with them. Where there is no row, it makes one without position and horizon.
//
// It returns the row as it is now.
func (s *Store) BeginRepair(ctx context.Context, slot string) (Row, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return Row{}, fmt.Errorf("begin repair of slot %q: %w", slot, err)
	}
	row, err := scan(conn.QueryRow(ctx, beginRepairSQL, slot))
	if err == pgx.ErrNoRows { // only then, since a role that only relays may not insert
		row, err = scan(conn.QueryRow(ctx, insertRepairSQL, slot))
	}
	if err != nil {
		return Row{}, fmt.Errorf("begin repair of slot %q: %w", slot, err)
	}
	return row, nil
}

const beginRepairSQL = `
	UPDATE walrelay.checkpoint c SET state = 'repairing', run_epoch = run_epoch + 1
	WHERE slot = $1 RETURNING ` + columns

const insertRepairSQL = `WITH server AS (` + serverSQL + `)
	INSERT INTO walrelay.checkpoint AS c (slot, state, system_id, timeline, lsn)
	SELECT $1, 'repairing', system_id, timeline, '0/0' FROM server
	RETURNING ` + columns

// EndRepair makes the row ready at the new slot's start, under the server's identity. row is what BeginRepair returned, with
// LSN, CommitTime, Horizon, Publication, KafkaClusterID and ProducerID as they are now. It is refused when another repair
// has begun since.
func (s *Store) EndRepair(ctx context.Context, row Row) error {
	return s.write(ctx, "end repair of", row, repairChecks, endRepairSQL, row.Slot, row.LSN.String(), row.Epoch,
		nullTime(row.CommitTime), nullXID(row.Horizon.XID), nullEnd(row.Horizon.LSN), nullTime(row.Horizon.Time),
		nullText(row.Publication), nullText(row.KafkaClusterID), nullID(row.ProducerID))
}

const endRepairSQL = `WITH server AS (` + serverSQL + `)
	UPDATE walrelay.checkpoint c
	SET state = 'ready', system_id = s.system_id, timeline = s.timeline, lsn = $2, commit_time = $4,
	    horizon = $5::text::xid8, horizon_lsn = $6::text::pg_lsn, horizon_time = $7, publication = $8,
	    kafka_cluster_id = coalesce($9, c.kafka_cluster_id), producer_id = coalesce($10, c.producer_id),
	    match_by_id = false, ceiling = NULL, saved_at = now()
	FROM server s
	WHERE c.slot = $1 AND c.state = 'repairing' AND c.run_epoch = $3`

var repairChecks = []check{rowExists, beingRepaired, myEpoch}

func beingRepaired(_ Row, have found) *RefusedError {
	if have.row.State == Repairing {
		return nil
	}
	return &RefusedError{GuardState, fmt.Sprintf("the row's state is %s", have.row.State), ""}
}
