package prune

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// run is one call of Run.
type run struct {
	o       Options
	conn    *pgx.Conn
	horizon horizon
}

// lockID is the advisory lock of who prunes; the letters "walprune" as a number.
const lockID int64 = 0x77616c7072756e65

// Run deletes what may go, table by table, and returns when it has gone through all. When another one prunes the database,
// or nothing may be deleted yet, the error is a *RefusedError. A run that is interrupted has deleted a part.
func Run(ctx context.Context, config *pgx.ConnConfig, o Options) error {
	o, err := o.resolved()
	if err != nil {
		return err
	}
	config = config.Copy()
	for name, value := range map[string]string{
		"application_name": "walrelay prune", "TimeZone": "UTC", "lock_timeout": "10s",
		"synchronous_commit": "off", // a deletion that a crash undoes is done again
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server notices either way
	r := &run{o: o, conn: conn}
	var alone bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lockID).Scan(&alone); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if !alone {
		return &RefusedError{"another walrelay prune works on this database", "let it end"}
	}
	defer conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, lockID) //nolint:errcheck // else it ends with the connection
	if r.horizon, err = loadHorizon(ctx, conn, o.Slot); err != nil {
		return err
	}
	for _, name := range o.Tables {
		done, err := r.table(ctx, name)
		o.Report(done)
		if err != nil {
			return err
		}
	}
	return nil
}

// table works on one table. What was done before an error is returned with it.
func (r *run) table(ctx context.Context, name string) (Table, error) {
	done := Table{Name: name}
	schema, relation, ok := strings.Cut(name, ".")
	if !ok {
		return done, fmt.Errorf("table %s: %w", name, errName)
	}
	var kind, columns string
	var timed bool
	err := r.conn.QueryRow(ctx, `
		SELECT c.relkind::text, coalesce(bool_or(a.attname = $3), false),
		       coalesce(string_agg(a.attname, ', ') FILTER (WHERE a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)), '')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE n.nspname = $1 AND c.relname = $2 GROUP BY c.oid`, schema, relation, r.o.Column).Scan(&kind, &timed, &columns)
	quoted := quoteName(name)
	switch {
	case err == pgx.ErrNoRows:
		return done, &RefusedError{fmt.Sprintf("table %s does not exist", name), "name yours in the setting tables"}
	case err != nil:
		return done, fmt.Errorf("look up table %s: %w", name, err)
	case r.o.OlderThan > 0 && !timed:
		return done, &RefusedError{fmt.Sprintf("table %s has no column %s", name, r.o.Column),
			"name the one with the time of a row with --column (" + columns + "), or give --older-than 0s"}
	case kind == "p":
		p := partitioned{run: r, table: quoted, now: done}
		err := p.work(ctx)
		return p.now, err
	case kind != "r":
		return done, &RefusedError{fmt.Sprintf("%s is not a table", name), "name the table that the rows are inserted into"}
	case r.o.Partitions != "":
		return done, &RefusedError{fmt.Sprintf("table %s has no partitions", name), "leave out --partitions"}
	}
	work := rows{run: r, table: quoted, cond: r.older() + " AND " + r.horizon.published()}
	err = work.all(ctx)
	done.Deleted = work.deleted
	return done, err
}
