package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
)

// A drain leaves nothing for the slot to send, not even the commit of our own row: that is what an upgrade of the server
// asks for. Once everything up to the end of the log is in Kafka, the row says drained and gives a ceiling; up to there the
// slot goes on without a row, until the server ends the connection. What is committed meanwhile is published as ever.
//
// The monitor sets progress.target, the saver writes the row and sets progress.ceiling, the reader does the rest.

const (
	// drainLead is how far the slot may go beyond a drained row: more than a server writes while it shuts down.
	drainLead = 16 << 20
	// drainStatus is how often the server is asked for its position; by itself it tells that twice a minute.
	drainStatus = time.Second
)

// draining tells whether the slot is to get to the end of the log.
func (p *progress) draining() bool { return p.target.Load() != 0 }

// drained tells whether it goes there without rows.
func (p *progress) drained() bool { return p.ceiling.Load() != 0 }

// hearDrain begins or ends a drain, and answers who asked for it.
func (r *Relay) hearDrain(ctx context.Context, conn *pgx.Conn) error {
	switch {
	case !r.orders.draining():
		r.progress.target.Store(0)
	case !r.progress.draining():
		var text string
		if err := conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&text); err != nil {
			return err
		}
		end, err := lsn.ParseEnd(text)
		if err != nil {
			return err
		}
		r.progress.target.Store(uint64(lastRecord(end)))
	case r.progress.drained():
		r.orders.drained(fmt.Sprintf("drained: everything up to %s is in Kafka; leave the relay running and stop the server",
			r.progress.mayConfirm()))
	}
	return nil
}

// goOnDraining takes a drain of the run before over, unless the server was restarted since.
func (r *Relay) goOnDraining(ctx context.Context, store *checkpoint.Store, row checkpoint.Row) error {
	on := false
	if row.Ceiling != 0 {
		conn, err := store.Conn(ctx)
		if err == nil {
			err = conn.QueryRow(ctx, `SELECT pg_postmaster_start_time() < $1`, row.SavedAt).Scan(&on)
		}
		if err != nil {
			return fmt.Errorf("ask since when the server runs: %w", err)
		}
	}
	r.orders.goOnDraining(on)
	return nil
}

// draining tells whether somebody wants that.
func (o *orders) draining() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.drain != nil
}

func (o *orders) goOnDraining(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain = nil
	if on {
		o.drain = &checkpoint.Request{Kind: checkpoint.Drain, Done: true}
	}
}

// drained records the outcome, once. The drain lasts until a person resumes, or the server is restarted.
func (o *orders) drained(outcome string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drain != nil && !o.drain.Done {
		o.drain.Done = true
		o.done[o.drain.ID] = outcome
	}
}

// takeResume ends a pause, and a drain.
func (o *orders) takeResume(request checkpoint.Request) {
	o.pause = nil
	o.done[request.ID] = "resumed"
	if o.drain != nil && !o.drain.Done {
		o.done[o.drain.ID] = "ended by a resume"
	}
	o.drain = nil
}
