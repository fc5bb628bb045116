package consumer

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/inbox"
	"github.com/walrelay/walrelay/outbox"
)

// Handler is what becomes of messages, and when their offsets are committed. Make it with one of the functions of this file.
//
// Its function must return an error for what was not handled, and stop soon when its context ends. It may be called at
// once from several goroutines, for different partitions and lanes.
type Handler struct {
	// handle reports how many messages it left out as handled before.
	handle  func(ctx context.Context, messages []Message) (known int, err error)
	early   bool // offsets are committed before
	inOrder bool // needs the order of the partition
	forget  func(ctx context.Context, olderThan time.Duration) (int64, error)
}

// AtLeastOnce commits offsets after the messages were handled. A message may come again: after a crash, a rebalance, or
// when a batch was handled in part. messages has one message unless Config.Batch is larger.
func AtLeastOnce(handle func(ctx context.Context, messages []Message) error) Handler {
	return Handler{handle: func(ctx context.Context, messages []Message) (int, error) { return 0, handle(ctx, messages) }}
}

// AtMostOnce commits offsets before the messages are handled. A message is tried once; what fails goes to
// Config.DeadLetter, or is counted and logged. What a crash interrupts is lost.
func AtMostOnce(handle func(ctx context.Context, messages []Message) error) Handler {
	h := AtLeastOnce(handle)
	h.early = true
	return h
}

// ExactlyOnce handles each event once: in a transaction that also notes its id in walrelay.processed_events under the name
// of the consumer. handle has its effects in tx alone and must not end it. All messages of a batch share a transaction.
func ExactlyOnce(db Database, consumer string, handle func(ctx context.Context, tx pgx.Tx, m Message) error) Handler {
	h := inTransaction(onPgx(db), pgxSeam, byID(consumer), handle)
	h.forget = func(ctx context.Context, olderThan time.Duration) (int64, error) {
		return inbox.Forget(ctx, db, consumer, olderThan)
	}
	return h
}

// ExactlyOnceSQL is ExactlyOnce with database/sql. Config.Retention does not work with it: call walrelay.forget.
func ExactlyOnceSQL(db *sql.DB, consumer string, handle func(ctx context.Context, tx *sql.Tx, m Message) error) Handler {
	return inTransaction(onSQL(db), sqlSeam, byID(consumer), handle)
}

// ExactlyOnceInOrder is ExactlyOnce with one position for each partition instead of a row for each event, see
// inbox.OnceInOrder for its conditions.
func ExactlyOnceInOrder(db Database, consumer string, handle func(ctx context.Context, tx pgx.Tx, m Message) error) Handler {
	h := inTransaction(onPgx(db), pgxSeam, byPosition(consumer), handle)
	h.inOrder = true
	return h
}

// Database is a *pgxpool.Pool.
type Database interface {
	outbox.Beginner
	inbox.DB
}

// once calls fn unless the message was handled before, and tells whether it has called it.
type once func(ctx context.Context, tx outbox.Tx, m Message, fn func(context.Context) error) (bool, error)

func byID(consumer string) once {
	return func(ctx context.Context, tx outbox.Tx, m Message, fn func(context.Context) error) (bool, error) {
		return inbox.Once(ctx, tx, consumer, m.ID, fn)
	}
}

func byPosition(consumer string) once {
	return func(ctx context.Context, tx outbox.Tx, m Message, fn func(context.Context) error) (bool, error) {
		at := inbox.Position{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, LSN: m.Header("walrelay.lsn")}
		return inbox.OnceInOrder(ctx, tx, consumer, at, fn)
	}
}

// inTransaction makes a Handler of a kind T of transaction.
func inTransaction[T any](begin func(context.Context, func(T) error) error, seam func(T) outbox.Tx, once once,
	handle func(context.Context, T, Message) error,
) Handler {
	return Handler{handle: func(ctx context.Context, messages []Message) (known int, err error) {
		err = begin(ctx, func(tx T) error {
			known = 0
			for _, m := range messages {
				called, err := once(ctx, seam(tx), m, func(ctx context.Context) error { return handle(ctx, tx, m) })
				if err != nil {
					return err
				}
				if !called {
					known++
				}
			}
			return nil
		})
		return known, err
	}}
}

func pgxSeam(tx pgx.Tx) outbox.Tx { return tx }

func sqlSeam(tx *sql.Tx) outbox.Tx { return outbox.SQL(tx) }

func onPgx(db outbox.Beginner) func(context.Context, func(pgx.Tx) error) error {
	return func(ctx context.Context, do func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, db, do) }
}

func onSQL(db *sql.DB) func(context.Context, func(*sql.Tx) error) error {
	return func(ctx context.Context, do func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}
