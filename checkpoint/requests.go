package checkpoint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RequestKind is what a person asks a relay to do.
type RequestKind string

// The kinds of requests.
const (
	// Pause: publish nothing more until Resume. The slot keeps the log.
	Pause RequestKind = "pause"
	// Resume ends a Pause.
	Resume RequestKind = "resume"
	// Skip leaves one event out.
	Skip RequestKind = "skip"
	// Drain publishes everything and lets the server move on without the row, for an upgrade of the server.
	Drain RequestKind = "drain"
)

// Request is a row of walrelay.request.
type Request struct {
	ID     int64
	Kind   RequestKind
	Event  string // identity of the event to skip
	Reason string
	By     string // the database role that asked
	Done   bool   // recorded as done; only of a pause that lasts
}

// Ask writes a request for the relay of a slot. It returns the request's number.
func Ask(ctx context.Context, conn *pgx.Conn, slot string, kind RequestKind, event, reason string) (int64, error) {
	var id int64
	err := conn.QueryRow(ctx, `INSERT INTO walrelay.request (slot, kind, event, reason) VALUES ($1, $2, $3, $4) RETURNING id`,
		slot, kind, nullText(event), reason).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("ask the relay of slot %q to %s: %w", slot, kind, err)
	}
	return id, nil
}

// Outcome is what became of a request; empty: nothing yet.
func Outcome(ctx context.Context, conn *pgx.Conn, id int64) (string, error) {
	var outcome *string
	err := conn.QueryRow(ctx, `SELECT outcome FROM walrelay.request WHERE id = $1 AND done_at IS NOT NULL`, id).Scan(&outcome)
	switch {
	case err == pgx.ErrNoRows:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read request %d: %w", id, err)
	case outcome == nil:
		return "", nil
	}
	return *outcome, nil
}

// Pending are the requests of a slot that are not done, the oldest first. A pause that was done and not ended by a
// resume or a drain comes first, so that it lasts over a restart.
func Pending(ctx context.Context, conn *pgx.Conn, slot string) ([]Request, error) {
	rows, err := conn.Query(ctx, `
		SELECT id, kind, coalesce(event, ''), reason, requested_by, done_at IS NOT NULL FROM walrelay.request
		WHERE slot = $1 AND (done_at IS NULL OR kind = 'pause' AND id = (
			SELECT max(id) FROM walrelay.request WHERE slot = $1 AND kind IN ('pause', 'resume', 'drain') AND done_at IS NOT NULL))
		ORDER BY id`, slot)
	if err != nil {
		return nil, fmt.Errorf("read the requests of slot %q: %w", slot, err)
	}
	requests, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Request, err error) {
		err = row.Scan(&r.ID, &r.Kind, &r.Event, &r.Reason, &r.By, &r.Done)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the requests of slot %q: %w", slot, err)
	}
	return requests, nil
}

// Done records what became of a request. The first record of it stands.
func Done(ctx context.Context, conn *pgx.Conn, id int64, outcome string) error {
	_, err := conn.Exec(ctx, `UPDATE walrelay.request SET done_at = now(), outcome = $2 WHERE id = $1 AND done_at IS NULL`, id, outcome)
	if err != nil {
		return fmt.Errorf("record the outcome of request %d: %w", id, err)
	}
	return nil
}
