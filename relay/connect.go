package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// standbyPoll is how often a hot standby looks whether the slot is free.
const standbyPoll = 300 * time.Millisecond

// connect takes the slot. While another process holds it, it waits as hot standby: the slot itself is the
// lock, Postgres lets one in.
func (r *Relay) connect(ctx context.Context) (*replication.Stream, replication.System, error) {
	for {
		cfg := r.cfg.Postgres
		cfg.WALSenderTimeout = r.patience.timeout
		conn, err := replication.Connect(ctx, cfg)
		if err != nil {
			return nil, replication.System{}, err
		}
		stream, err := conn.Start(ctx, r.cfg.Postgres.Slot, r.cfg.Postgres.Publication)
		if err == nil {
			return stream, conn.System, nil
		}
		if replication.Classify(err) != replication.Standby {
			return nil, replication.System{}, err
		}
		r.progress.become(Standby, "another process holds the slot")
		if err := r.awaitSlot(ctx); err != nil {
			return nil, replication.System{}, err
		}
	}
}

// reconnect goes on with the same server. Another one, or another timeline, has another history: the run starts anew then.
// So it does when the server was started anew: it may have been restored from a copy that is older than what was read, and
// then other events come at the same positions.
func (r *Relay) reconnect(ctx context.Context, before replication.System) (*replication.Stream, error) {
	var pace backoff
	for {
		pace.wait(ctx)
		stream, system, err := r.connect(ctx)
		if err == nil && system == before {
			if err = r.unchanged(ctx); err != nil {
				stream.Abort()
				stream = nil
			}
		}
		switch {
		case errors.Is(err, errHistory):
			return nil, err
		case err == nil && system != before:
			stream.Abort()
			return nil, fmt.Errorf("system %s timeline %d, started %s; before system %s timeline %d, started %s: %w",
				system.ID, system.Timeline, system.Started, before.ID, before.Timeline, before.Started, errHistory)
		case err == nil, ctx.Err() != nil:
			return stream, err
		case r.final(err): // the look at the start of a run knows more, such as that the slot was lost
			return nil, fmt.Errorf("%w: %v", errHistory, err)
		}
		r.failed(err)
	}
}

// sameHistory tells whether the slot still stands where this run has left it, and the publication is the one that the row
// knows. Somebody may have dropped either and made it anew while there was no connection; events would be missing in
// silence then.
func (r *Relay) sameHistory(look glance, publication string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := r.connectSQL(ctx)
		if err != nil {
			return err
		}
		defer closeConn(conn)
		slot, err := replication.InspectSlot(ctx, conn, r.cfg.Postgres.Slot)
		if err != nil || slot == nil {
			return errors.Join(err, errHistory)
		}
		position, err := lsn.ParseEnd(slot.ConfirmedFlushLSN)
		if told := r.progress.mayConfirm(); err == nil && position > told {
			return fmt.Errorf("the slot stands at %s, and only %s was confirmed: %w", position, told, errHistory)
		}
		if err != nil {
			return err
		}
		m, err := look(ctx, conn)
		if err == nil && m.Fingerprint != publication {
			r.progress.publicationChanged.Store(true)
			err = errChanged
		}
		return err
	}
}

// awaitSlot returns when nobody holds the slot. A connection of our own that Postgres has not noticed to be
// dead is ended.
func (r *Relay) awaitSlot(ctx context.Context) error {
	conn, err := r.connectSQL(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	const look = `SELECT s.active_pid IS NULL,
		(SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE a.pid = s.active_pid AND a.application_name = $2)
		FROM pg_replication_slots s WHERE s.slot_name = $1`
	for looked := (time.Time{}); ; {
		if time.Since(looked) >= monitorInterval {
			looked = time.Now()
			if err := r.look(ctx, conn); err != nil {
				return err
			}
		}
		var free bool
		var ended *bool
		err := conn.QueryRow(ctx, look, r.cfg.Postgres.Slot, r.cfg.Postgres.ApplicationName()).Scan(&free, &ended)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the next START tells
		}
		if err != nil || free {
			return err
		}
		if pause(ctx, standbyPoll); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server notices either way
}

// claimError says what a refused claim means. A connection that reached another server than the stream may be
// right the next time.
func claimError(err error) error {
	var refused *checkpoint.RefusedError
	if errors.As(err, &refused) && final(err) {
		return &StopError{Reason: "the checkpoint row refuses this relay", Err: err}
	}
	return err
}
