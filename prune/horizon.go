package prune

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// horizon is a transaction id with its epoch: what was written by transactions below it is in Kafka.
type horizon uint64

// loadHorizon reads the lowest horizon of the slots that publish from this database.
func loadHorizon(ctx context.Context, conn *pgx.Conn, slot string) (horizon, error) {
	var rows, unknown, foreign, unfinished int
	var ahead bool
	var lowest string
	err := conn.QueryRow(ctx, `
		WITH server AS (SELECT system_identifier::numeric AS id FROM pg_control_system())
		SELECT count(*), count(*) FILTER (WHERE horizon IS NULL), coalesce(min(horizon::text::numeric), 0)::text,
		       count(*) FILTER (WHERE system_id <> (SELECT (CASE WHEN id < 0 THEN id + 18446744073709551616 ELSE id END)::text FROM server)),
		       count(*) FILTER (WHERE state NOT IN ('ready', 'clean')),
		       coalesce(bool_or(horizon::text::numeric > pg_snapshot_xmax(pg_current_snapshot())::text::numeric), false)
		FROM walrelay.checkpoint
		WHERE slot = $1 OR slot IN (SELECT slot_name FROM pg_replication_slots WHERE database = current_database())`, slot).
		Scan(&rows, &unknown, &lowest, &foreign, &unfinished, &ahead)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read walrelay.checkpoint: %w", err)
	case rows == 0:
		return 0, &RefusedError{fmt.Sprintf("nothing is published from here: walrelay.checkpoint has no row of slot %s", slot),
			"check --slot and the database, or run walrelay init first"}
	case foreign > 0 || ahead:
		return 0, &RefusedError{"the row in walrelay.checkpoint is of another server", "run walrelay slot adopt or walrelay repair, which say what is missing"}
	case unfinished > 0:
		return 0, &RefusedError{"walrelay init or repair was begun and has not ended", "end it first; a repair needs the rows"}
	case unknown > 0:
		return 0, &RefusedError{"it is not known yet which rows are in Kafka", "let walrelay run for a minute while the outbox gets rows, and try again"}
	}
	xid, err := strconv.ParseUint(lowest, 10, 64)
	return horizon(xid), err
}

// published is the condition that a row, or all of its versions, came from a transaction below the horizon. Rows have the
// lower half of the transaction id. The distance from the first id that had not begun at the statement's own snapshot is
// exact for every row that the statement can see and that is less than 2^32 transactions old; an older row has a distance that
// may be too small, and is kept. A row of the last transactions has a distance that is never too large.
func (h horizon) published() string {
	const next = `(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint)` // once for a statement
	return fmt.Sprintf(`((%[1]s - xmin::text::bigint + 4294967296) %% 4294967296 > %[1]s - %[2]d)`, next, uint64(h))
}
