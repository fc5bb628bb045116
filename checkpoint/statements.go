package checkpoint

import "strings"

// serverSQL tells which server is at the other end of the connection: its system identifier as IDENTIFY_SYSTEM
// prints it (unsigned), and the timeline of the WAL it writes now, the first 8 digits of a WAL file's name.
// pg_control_system and the others are open to every role. It fails during recovery.
const serverSQL = `
	SELECT (CASE WHEN id < 0 THEN id + 18446744073709551616 ELSE id END)::text AS system_id,
	       ('x' || left(pg_walfile_name(insert_lsn), 8))::bit(32)::integer AS timeline,
	       insert_lsn
	FROM (SELECT system_identifier::numeric AS id, pg_current_wal_insert_lsn() AS insert_lsn
	      FROM pg_control_system()) control`

const createSQL = `WITH server AS (` + serverSQL + `)
	INSERT INTO walrelay.checkpoint AS c (slot, state, system_id, timeline, lsn)
	SELECT $1, 'creating', system_id, timeline, '0/0' FROM server
	ON CONFLICT (slot) DO UPDATE
	SET system_id = excluded.system_id, timeline = excluded.timeline, lsn = excluded.lsn, saved_at = now()
	WHERE c.state = 'creating'`

const readySQL = `
	UPDATE walrelay.checkpoint SET state = 'ready', lsn = $2, horizon = $3::text::xid8, horizon_lsn = $4::text::pg_lsn,
	    horizon_time = $5, publication = $6, kafka_cluster_id = $7, producer_id = $8, saved_at = now()
	WHERE slot = $1 AND state = 'creating'`

// The subquery is the row before the update, which RETURNING cannot give before Postgres 18.
const claimSQL = `WITH server AS (` + serverSQL + `)
	UPDATE walrelay.checkpoint r SET state = 'ready', run_epoch = r.run_epoch + 1
	FROM (SELECT * FROM walrelay.checkpoint WHERE slot = $1 FOR UPDATE) c, server s
	WHERE r.slot = c.slot AND c.state IN ('ready', 'clean', 'drained')
	  AND c.system_id = $2 AND s.system_id = $2 AND s.timeline = $3
	  AND c.lsn <= s.insert_lsn
	RETURNING ` + columns

const saveSQL = `WITH server AS (` + serverSQL + `)
	UPDATE walrelay.checkpoint c
	SET state = $2, timeline = $4, lsn = $5, commit_time = coalesce($7, c.commit_time),
	    kafka_cluster_id = coalesce($8, c.kafka_cluster_id), producer_id = coalesce($9, c.producer_id),
	    horizon = coalesce($10::text::xid8, c.horizon), horizon_lsn = coalesce($11::text::pg_lsn, c.horizon_lsn),
	    horizon_time = coalesce($12, c.horizon_time), publication = coalesce($13, c.publication),
	    match_by_id = c.match_by_id AND $14, ceiling = $15::text::pg_lsn,
	    routing = coalesce($16, c.routing), saved_at = now()
	FROM server s
	WHERE c.slot = $1 AND c.state IN ('ready', 'clean', 'drained')
	  AND c.system_id = $3 AND s.system_id = $3 AND s.timeline = $4
	  AND c.run_epoch = $6 AND c.lsn <= $5
	  AND coalesce(c.kafka_cluster_id = $8, true)`

// explainSQL reads what the guards compare, whether there is a row or not.
const explainSQL = `WITH server AS (` + serverSQL + `)
	SELECT s.system_id, s.timeline, s.insert_lsn::text, c.slot IS NOT NULL,
	       coalesce(c.state, ''), coalesce(c.system_id, ''), coalesce(c.run_epoch, 0), coalesce(c.lsn, '0/0')::text,
	       coalesce(c.kafka_cluster_id, '')
	FROM server s LEFT JOIN walrelay.checkpoint c ON c.slot = $1`

// CreateSQL is the statement of Create for a script that a person runs. A slot's name has no character that
// needs quoting.
func CreateSQL(slot string) string { return strings.ReplaceAll(createSQL, "$1", "'"+slot+"'") }

// MarkReadySQL is the statement of MarkReady for a script, with the position taken from the slot itself. A script
// knows nothing else.
func MarkReadySQL(slot string) string {
	name := "'" + slot + "'"
	position := "(SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = " + name + ")"
	unknown := "NULL"
	return strings.NewReplacer("$1", name, "$2", position, "$3", unknown, "$4", unknown, "$5", unknown, "$6", unknown,
		"$7", unknown, "$8", unknown).Replace(readySQL)
}
