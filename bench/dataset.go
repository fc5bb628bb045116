package bench

import (
	"context"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/migrations"
)

// dataset is an outbox full of rows in a database of its own, and a slot from before they were inserted. Each run reads
// through a copy of that slot, so all read the very same WAL.
type dataset struct {
	workload
	server   *postgres
	database string
	end      string // position behind the last commit
}

const baseSlot = "bench_base"

// load makes a dataset. A run reads on from its last row to the end of the log, so datasets are loaded and used one after
// the other.
func (s *stage) load(ctx context.Context, w workload) (*dataset, error) {
	database, err := s.database(ctx, w)
	if err != nil {
		return nil, err
	}
	d := &dataset{workload: w, server: s.server, database: database}
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	steps := []string{`SET synchronous_commit = off`} // of the load alone
	if w.standing > 0 {
		steps = append(steps, fmt.Sprintf(`CALL place(1, %d)`, w.standing))
	}
	steps = append(steps,
		fmt.Sprintf(`SELECT pg_create_logical_replication_slot('%s', 'pgoutput')`, baseSlot),
		fmt.Sprintf(`CALL load(%d, %d)`, w.rows, w.perTx),
		`CHECKPOINT`, // so that none is under way during a run
	)
	for _, sql := range steps {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("load %d rows: %s: %w", w.rows, sql, err)
		}
	}
	if err := conn.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&d.end); err != nil {
		return nil, fmt.Errorf("load %d rows: %w", w.rows, err)
	}
	return d, nil
}

// database makes a new database with the empty outbox of a workload.
func (s *stage) database(ctx context.Context, w workload) (string, error) {
	s.made++
	name := fmt.Sprintf("bench_%d", s.made)
	if err := execute(ctx, s.server.url("postgres"), "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	if err := execute(ctx, s.server.url(name), w.schema()); err != nil {
		return "", fmt.Errorf("fill database %s: %w", name, err)
	}
	config, err := pgx.ParseConfig(s.server.url(name))
	if err != nil {
		return "", err
	}
	return name, migrations.Apply(ctx, config) // ours now, so that no run has to
}

func (d *dataset) url() string { return d.server.url(d.database) }

// close drops the base slot and the database, so that the server need not keep their log and files.
func (d *dataset) close(ctx context.Context) error {
	if err := dropSlot(ctx, d.url(), baseSlot); err != nil {
		return err
	}
	return execute(ctx, d.server.url("postgres"), "DROP DATABASE "+d.database+" WITH (FORCE)")
}

// slot makes a copy of a dataset's slot. What was written before is flushed first, so that each run begins alike.
func (s *stage) slot(ctx context.Context, d *dataset) (string, error) {
	syscall.Sync()
	s.made++
	name := fmt.Sprintf("bench_%d", s.made)
	return name, execute(ctx, d.url(), fmt.Sprintf(`SELECT pg_copy_logical_replication_slot('%s', '%s')`, baseSlot, name))
}

// newSlot makes a slot at the end of the log.
func (s *stage) newSlot(ctx context.Context, url string) (string, error) {
	s.made++
	name := fmt.Sprintf("bench_%d", s.made)
	return name, execute(ctx, url, fmt.Sprintf(`SELECT pg_create_logical_replication_slot('%s', 'pgoutput')`, name))
}

// dropSlot waits until nobody reads through the slot and drops it.
func dropSlot(ctx context.Context, url, name string) error {
	if err := awaitWalsender(ctx, url, name, func(pid int) bool { return pid == 0 }); err != nil {
		return err
	}
	return execute(ctx, url, fmt.Sprintf(`SELECT pg_drop_replication_slot('%s')`, name))
}

// execute runs statements, without parameters, one after the other.
func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("%.200s: %w", sql, err)
	}
	return nil
}

// ask runs a query that gives one value.
func ask[T any](ctx context.Context, url, sql string, args ...any) (value T, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return value, err
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		return value, fmt.Errorf("%s: %w", sql, err)
	}
	return value, nil
}

// written is how many bytes of log the server has written in its life.
func (s *stage) written(ctx context.Context) (int64, error) {
	return ask[int64](ctx, s.server.url("postgres"), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`)
}
