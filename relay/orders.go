package relay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
)

// orders are what people asked for: to pause, to drain, and to skip single events. The clerk takes them from
// walrelay.request, the flow follows them, and the clerk records what became of them.
type orders struct {
	mu    sync.Mutex
	pause *checkpoint.Request
	drain *checkpoint.Request // Done: the answer was given, and it lasts
	skips map[lsn.Identity]checkpoint.Request
	done  map[int64]string // outcomes to record, by request
}

func newOrders() *orders {
	return &orders{skips: make(map[lsn.Identity]checkpoint.Request), done: make(map[int64]string)}
}

// paused tells whether nothing more may be published, and why.
func (o *orders) paused() (reason string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pause == nil {
		return "", false
	}
	return strings.TrimSuffix(fmt.Sprintf("paused by %s: %s", o.pause.By, o.pause.Reason), ": "), true
}

// skip takes the order to skip an event. The caller must follow it.
func (o *orders) skip(id lsn.Identity) (checkpoint.Request, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	request, ok := o.skips[id]
	if ok {
		delete(o.skips, id)
		o.done[request.ID] = "skipped"
	}
	return request, ok
}

// peek is skip without taking it.
func (o *orders) peek(id lsn.Identity) (checkpoint.Request, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	request, ok := o.skips[id]
	return request, ok
}

// take takes the requests in that are not done. confirmed is how far everything is in Kafka.
func (o *orders) take(requests []checkpoint.Request, confirmed lsn.End) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pause = nil
	for _, request := range requests {
		if _, recorded := o.done[request.ID]; recorded {
			continue
		}
		switch request.Kind {
		case checkpoint.Pause:
			o.pause = &request
			if !request.Done {
				o.done[request.ID] = "paused"
			}
		case checkpoint.Resume:
			o.takeResume(request)
		case checkpoint.Drain:
			o.pause, o.drain = nil, &request
		case checkpoint.Skip:
			o.takeSkip(request, confirmed)
		}
	}
}

func (o *orders) takeSkip(request checkpoint.Request, confirmed lsn.End) {
	id, err := lsn.ParseIdentity(request.Event)
	switch {
	case err != nil:
		o.done[request.ID] = "refused: " + err.Error()
	case id.Commit.CoveredBy(confirmed):
		o.done[request.ID] = "refused: the relay is past this event"
	default:
		o.skips[id] = request
	}
}

// outcomes are to be recorded; recorded forgets one.
func (o *orders) outcomes() map[int64]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[int64]string, len(o.done))
	for id, outcome := range o.done {
		all[id] = outcome
	}
	return all
}

func (o *orders) recorded(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.done, id)
}

// ordersInterval is how often requests are looked for.
const ordersInterval = 2 * time.Second

// hearFirst takes in what was asked for before the run, so that a pause lasts over a restart.
func (r *Relay) hearFirst(ctx context.Context) error {
	conn, err := r.connectSQL(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	return r.hear(ctx, conn)
}

// hear takes requests in and records outcomes.
func (r *Relay) hear(ctx context.Context, conn *pgx.Conn) error {
	requests, err := checkpoint.Pending(ctx, conn, r.cfg.Postgres.Slot)
	if err != nil {
		return err
	}
	r.orders.take(requests, lsn.End(r.progress.confirmed.Load()))
	if err := r.hearDrain(ctx, conn); err != nil {
		return err
	}
	for id, outcome := range r.orders.outcomes() {
		if err := checkpoint.Done(ctx, conn, id, outcome); err != nil {
			return err
		}
		r.log.Info("request done", zap.Int64("request", id), zap.String("outcome", outcome))
		r.orders.recorded(id)
	}
	r.wake()
	return nil
}
