package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Mix says which kinds of transactions are written, and how often.
type Mix struct {
	kinds      []kind
	partitions bool // also into outbox_parts
}

type kind struct {
	name   string
	weight int
	write  func(context.Context, *writer) error
}

func (m Mix) weight() (sum int) {
	for _, k := range m.kinds {
		sum += k.weight
	}
	return sum
}

var (
	// Basic is what any application does with one outbox table.
	Basic = Mix{kinds: []kind{
		{"one row", 60, oneRow}, {"several keys", 20, severalKeys}, {"many rows", 1, manyRows}, {"rollback", 10, rolledBack},
		{"savepoint", 9, aroundSavepoint},
	}}
	// Everything adds COPY, long and prepared transactions, and partitions that come and go.
	Everything = Mix{partitions: true, kinds: []kind{
		{"one row", 500, oneRow}, {"several keys", 180, severalKeys}, {"many rows", 6, manyRows}, {"rollback", 90, rolledBack},
		{"savepoint", 90, aroundSavepoint}, {"copy", 30, copied}, {"prepared", 50, prepared}, {"long", 12, long},
	}}
)

// largest is the number of rows that one key gets at most in one transaction.
const largest = 300

var (
	errRollback = errors.New("rolled back on purpose")
	errUndone   = errors.New("undone on purpose, the transaction goes on")
)

func oneRow(ctx context.Context, w *writer) error {
	return w.inTransaction(ctx, func(tx pgx.Tx) error { return insert(ctx, tx, w.table(), w.someKeys()[0], 1) })
}

func severalKeys(ctx context.Context, w *writer) error {
	return w.inTransaction(ctx, func(tx pgx.Tx) error { return w.insertAll(ctx, tx, w.someKeys(), 1+w.rng.IntN(3)) })
}

func manyRows(ctx context.Context, w *writer) error {
	return w.inTransaction(ctx, func(tx pgx.Tx) error { return w.insertAll(ctx, tx, w.someKeys(), 1+w.rng.IntN(largest)) })
}

func rolledBack(ctx context.Context, w *writer) error {
	err := w.inTransaction(ctx, func(tx pgx.Tx) error {
		return errors.Join(w.insertAll(ctx, tx, w.someKeys(), 1+w.rng.IntN(3)), errRollback)
	})
	if errors.Is(err, errRollback) && !w.conn.IsClosed() {
		return nil
	}
	return err
}

// aroundSavepoint undoes one part of the transaction and keeps another.
func aroundSavepoint(ctx context.Context, w *writer) error {
	some := w.someKeys()
	return w.inTransaction(ctx, func(tx pgx.Tx) error {
		if err := insert(ctx, tx, w.table(), some[0], 1); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
			return errors.Join(w.insertAll(ctx, nested, some, 2), errUndone)
		})
		if !errors.Is(err, errUndone) {
			return err
		}
		return pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error { return w.insertAll(ctx, nested, some, 1) })
	})
}

// copied writes the events of a key with COPY.
func copied(ctx context.Context, w *writer) error {
	key, table, n := w.someKeys()[0], w.table(), 1+w.rng.IntN(50)
	return w.inTransaction(ctx, func(tx pgx.Tx) error {
		var aggregate string
		var before int64
		err := tx.QueryRow(ctx, `UPDATE keys SET sequence = sequence + $2 WHERE key = $1 RETURNING aggregate, sequence - $2`, key, n).
			Scan(&aggregate, &before)
		if err != nil {
			return err
		}
		columns := []string{"aggregatetype", "aggregateid", "type", "payload", "sequence"}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			sequence := before + int64(i) + 1
			return []any{aggregate, key, "Changed", fmt.Sprintf(`{"sequence": %d}`, sequence), sequence}, nil
		}))
		return err
	})
}

// long keeps a transaction open while others commit, on a key of its own: nobody waits for its lock.
func long(ctx context.Context, w *writer) error {
	key := fmt.Sprint("long-", w.number)
	return w.inTransaction(ctx, func(tx pgx.Tx) error {
		for range 1 + w.rng.IntN(4) {
			err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error { return insert(ctx, nested, w.table(), key, 1+w.rng.IntN(20)) })
			if err != nil {
				return err
			}
			if err := pause(ctx, time.Duration(w.rng.Int64N(int64(500*time.Millisecond)))); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepared writes a transaction that is committed or rolled back in a second step, a moment later. Its locks outlive the
// connection and the server in between.
func prepared(ctx context.Context, w *writer) error {
	if _, err := w.conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := w.insertAll(ctx, w.conn, w.someKeys(), 1+w.rng.IntN(3)); err != nil {
		return err // the connection is given up, and the transaction with it
	}
	if _, err := w.conn.Exec(ctx, fmt.Sprintf("PREPARE TRANSACTION '%s%d'", w.prefix(), w.rng.Uint64())); err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(w.rng.Int64N(int64(200*time.Millisecond)))); err != nil {
		return err
	}
	return w.endPrepared(ctx)
}

// prefix begins the names of this writer's prepared transactions.
func (w *writer) prefix() string { return fmt.Sprintf("writer-%d-", w.number) }

// endPrepared commits or rolls back what this writer has prepared.
func (w *writer) endPrepared(ctx context.Context) error {
	found, err := w.conn.Query(ctx, `SELECT gid FROM pg_prepared_xacts WHERE gid LIKE $1 AND database = current_database()`, w.prefix()+"%")
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		end := []string{"COMMIT", "ROLLBACK"}[w.rng.IntN(2)]
		if _, err := w.conn.Exec(ctx, fmt.Sprintf("%s PREPARED '%s'", end, name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) inTransaction(ctx context.Context, write func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, w.conn, write)
}

// session is a connection or a transaction.
type session interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

func (w *writer) insertAll(ctx context.Context, s session, some []string, n int) error {
	for _, key := range some {
		if err := insert(ctx, s, w.table(), key, n); err != nil {
			return err
		}
	}
	return nil
}

// insert writes the next n events of the keys that are LIKE key.
func insert(ctx context.Context, s session, table, key string, n int) error {
	_, err := s.Exec(ctx, fmt.Sprintf(`
		WITH next AS (UPDATE keys SET sequence = sequence + $2 WHERE key LIKE $1 RETURNING key, aggregate, sequence - $2 AS before)
		INSERT INTO %s (aggregatetype, aggregateid, type, payload, sequence)
		SELECT aggregate, key, 'Changed', jsonb_build_object('sequence', before + n), before + n
		FROM next, generate_series(1, $2::bigint) n ORDER BY n`, table), key, n)
	return err
}

// Burst writes rows events, a tenth to each of ten keys of its own, in one transaction.
func Burst(ctx context.Context, url string, rows int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the server may be gone
	return insert(ctx, conn, "outbox", "burst-%", rows/10)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
