package inbox

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/outbox"
)

// Once calls fn unless the consumer has processed the event before, and tells whether it has called it. event is the id that
// the header id has. Another transaction that is about to process the same event is waited for.
//
// After an error the transaction must be rolled back: with a commit, the event would count as processed.
func Once(ctx context.Context, tx outbox.Tx, consumer, event string, fn func(context.Context) error) (called bool, err error) {
	if err := checkNames(consumer, event); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO walrelay.processed_events (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, consumer, event)
	if err != nil {
		return false, fmt.Errorf("inbox: note event %s for consumer %s: %w", event, consumer, remedy(err))
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	return true, fn(ctx)
}

// checkNames refuses what cannot identify anything: one empty id would make all events without an id one event.
func checkNames(consumer, event string) error {
	for what, name := range map[string]string{"consumer": consumer, "event": event} {
		if name == "" || !utf8.ValidString(name) {
			return fmt.Errorf("inbox: the name of the %s is empty or not UTF-8: %.40q", what, name)
		}
	}
	return nil
}

// remedy adds what a person must do about a database that is not prepared.
func remedy(err error) error {
	var state interface{ SQLState() string } // pgconn.PgError and pq.Error
	if errors.As(err, &state) {
		switch state.SQLState() {
		case "42P01", "3F000", "42883": // no such table, schema, function
			return fmt.Errorf("%w; run walrelay init --schema-only on this database", err)
		case "42501":
			return fmt.Errorf("%w; grant what walrelay init --schema-only --sql lists for applications", err)
		}
	}
	return err
}

// DB asks one question: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type DB interface {
	// QueryRow runs a statement that gives one row.
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
