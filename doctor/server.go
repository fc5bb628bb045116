package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/replication"
)

// reach connects, and looks whether a pooler is in the way: it hands out process numbers of its own, and cannot carry a
// replication stream.
func (e *examination) reach(ctx context.Context) error {
	config, err := e.cfg.Postgres.SQL()
	if err != nil {
		e.fail("postgres", err, "")
		return errEnough
	}
	if e.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		e.fail("postgres", replication.RefusedConnection(err, config), "")
		return errEnough
	}
	if e.server, err = replication.InspectServer(ctx, e.conn); err != nil {
		e.fail("postgres", err, "")
		return errEnough
	}
	if e.provider, err = findProvider(ctx, e.conn); err != nil {
		return err
	}
	e.slot, _ = e.cfg.Postgres.Names(e.server.Database)
	var pid uint32
	if err := e.conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	if pid != e.conn.PgConn().PID() {
		e.say(Fail, "pooler", fmt.Sprintf("%s:%d is a connection pooler", config.Host, config.Port),
			"give walrelay the address of Postgres itself in postgres.url (PgBouncer carries replication from 1.23 on, with "+
				"pool_mode = session; on Supabase it is db.<project>.supabase.co:5432)")
		return nil
	}
	e.ok("postgres", fmt.Sprintf("database %s at %s:%d as %s, on %s", e.server.Database, config.Host, config.Port, e.server.Role, e.provider.name))
	if e.provider.note != "" {
		e.say(Info, "service", e.provider.note, "")
	}
	return nil
}

func (e *examination) primary(context.Context) error {
	if e.server.InRecovery {
		e.say(Fail, "primary", "the server is a standby; decoding on a standby is not supported",
			"give the address of the primary, or several hosts with target_session_attrs=read-write in postgres.url")
		return errEnough
	}
	e.ok("primary", fmt.Sprintf("system %s on timeline %d", e.server.SystemID, e.server.Timeline))
	return nil
}

// oldestVersion and newestVersion (server_version_num / 10000) are those that the tests run on.
const oldestVersion, newestVersion = 14, 18

func (e *examination) version(context.Context) error {
	major := e.server.Version / 10000
	text := fmt.Sprintf("PostgreSQL %d", major)
	switch {
	case major < oldestVersion:
		e.say(Fail, "version", text+" is too old", fmt.Sprintf("upgrade to %d to %d", oldestVersion, newestVersion))
	case major > newestVersion:
		e.say(Warn, "version", text+" is newer than what walrelay was tested with", "look for a newer walrelay")
	default:
		e.ok("version", text)
	}
	return nil
}

func (e *examination) walLevel(context.Context) error {
	if e.server.WALLevel != "logical" {
		e.say(Fail, "wal_level", fmt.Sprintf("wal_level is %s, logical decoding needs logical", e.server.WALLevel), e.provider.logical)
		return nil
	}
	e.ok("wal_level", "logical")
	return nil
}

// room looks whether there is a slot and a sender to be had.
func (e *examination) room(ctx context.Context) error {
	var slots, slotsUsed, senders, sendersUsed int
	var exists, streaming bool
	err := e.conn.QueryRow(ctx, `
		SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
		       current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'),
		       EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1),
		       EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active)`, e.slot).
		Scan(&slots, &slotsUsed, &senders, &sendersUsed, &exists, &streaming)
	if err != nil {
		return err
	}
	e.seats("max_replication_slots", slots, slotsUsed, exists)
	e.seats("max_wal_senders", senders, sendersUsed, streaming)
	return nil
}

func (e *examination) seats(name string, limit, used int, ours bool) {
	text := fmt.Sprintf("%d of %d in use", used, limit)
	if used >= limit && !ours {
		e.say(Fail, name, text+", and we need one", e.provider.set(name, fmt.Sprint(limit+5))+"; then restart Postgres; or drop what nobody needs: "+
			"SELECT slot_name, active FROM pg_replication_slots")
		return
	}
	e.ok(name, text)
}

// role looks at what the role may do. On hosted servers the right to replicate comes by a membership.
func (e *examination) role(ctx context.Context) error {
	name := pgx.Identifier{e.server.Role}.Sanitize()
	var member, stats bool
	err := e.conn.QueryRow(ctx, `SELECT coalesce((SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = 'rds_replication'), false),
		pg_has_role('pg_read_all_stats', 'MEMBER')`).Scan(&member, &stats)
	switch {
	case err != nil:
		return err
	case e.server.Superuser:
		e.say(Info, "role", fmt.Sprintf("%s is a superuser; walrelay needs far less", e.server.Role),
			"a role of its own: walrelay init --sql --role walrelay_relay")
		return nil
	case !e.server.Replication && !member:
		e.say(Fail, "role", fmt.Sprintf("role %s may not replicate", e.server.Role), e.provider.mayReplicate(name))
		return nil
	}
	e.ok("role", fmt.Sprintf("%s may replicate", e.server.Role))
	if !stats {
		e.say(Info, "statistics", fmt.Sprintf("role %s does not see which transactions keep the log; the status can name them only with that right", e.server.Role),
			fmt.Sprintf("GRANT pg_read_all_stats TO %s;", name))
	}
	return nil
}

// replicationConnection opens the kind of connection that pg_hba.conf has a line of its own for in people's minds.
func (e *examination) replicationConnection(ctx context.Context) error {
	conn, err := replication.Connect(ctx, e.cfg.Postgres)
	if err != nil {
		e.fail("stream", err, "check that pg_hba.conf has a line for this database and user (the keyword replication does not count for "+
			"logical replication), and that no pooler is in the way")
		return nil
	}
	defer conn.Close()
	if conn.System.ID != e.server.SystemID {
		e.say(Fail, "stream", fmt.Sprintf("replication connections reach system %s, ordinary ones %s", conn.System.ID, e.server.SystemID),
			"give one host in postgres.url, or target_session_attrs=read-write")
		return nil
	}
	e.ok("stream", "a replication connection can be had")
	return nil
}

// grants looks at walrelay's own tables, once they are there.
func (e *examination) grants(ctx context.Context) error {
	rows, err := e.conn.Query(ctx, `
		SELECT format('GRANT %s ON walrelay.%I TO %I;', p.privileges, c.relname, current_user)
		FROM (VALUES ('schema_version', 'SELECT'), ('checkpoint', 'SELECT, UPDATE'), ('request', 'SELECT, INSERT, UPDATE')) p(name, privileges)
		JOIN pg_class c ON c.relname = p.name JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'walrelay'
		WHERE NOT (SELECT bool_and(has_table_privilege(c.oid, privilege)) FROM unnest(string_to_array(p.privileges, ', ')) privilege)
		UNION ALL
		SELECT format('GRANT USAGE ON SCHEMA walrelay TO %I;', current_user) FROM pg_namespace n
		WHERE n.nspname = 'walrelay' AND NOT has_schema_privilege(n.oid, 'USAGE')
		ORDER BY 1 DESC`)
	if err != nil {
		return err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		e.say(Fail, "grants", fmt.Sprintf("role %s lacks rights to walrelay's own tables", e.server.Role), join(missing))
		return errEnough
	}
	return nil
}

func join(statements []string) string {
	text := ""
	for i, s := range statements {
		if i > 0 {
			text += " "
		}
		text += s
	}
	return text
}

// synchronous looks whether commits would wait for us.
func (e *examination) synchronous(context.Context) error {
	if replication.WaitsFor(e.server.SynchronousStandbyNames, e.cfg.Postgres.ApplicationName()) {
		e.say(Fail, "synchronous", fmt.Sprintf("synchronous_standby_names is %q, which takes walrelay for a synchronous standby: every commit would wait for Kafka",
			e.server.SynchronousStandbyNames), "name your standbys there instead of *: "+e.provider.set("synchronous_standby_names", "standby1"))
		return nil
	}
	e.ok("synchronous", "no commit waits for walrelay")
	return nil
}
