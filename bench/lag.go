package bench

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/lsn"
)

const (
	lagInterval = 50 * time.Millisecond
	// lagTail is how long after the load confirmations are waited for. What is not confirmed then counts with its age.
	lagTail = 5 * time.Second
)

// lagWatch notes how long the server waits until a slot confirms what was flushed.
type lagWatch struct {
	stop chan struct{} // closed by end
	done chan struct{} // closed when lags and err are final
	lags []time.Duration
	err  error
}

// watchLag begins; without a slot there is nothing to see.
func watchLag(ctx context.Context, url, slot string) *lagWatch {
	w := &lagWatch{stop: make(chan struct{}), done: make(chan struct{})}
	if slot == "" {
		close(w.done)
		return w
	}
	go func() {
		defer close(w.done)
		w.err = w.watch(ctx, url, slot)
	}()
	return w
}

// end waits for the tail and adds what was seen to the figures.
func (w *lagWatch) end(result figures) error {
	close(w.stop)
	<-w.done
	if w.err == nil && len(w.lags) > 0 {
		slices.Sort(w.lags)
		result[confirmP50] = percentile(w.lags, 0.5).Seconds()
		result[confirmP99] = percentile(w.lags, 0.99).Seconds()
	}
	return w.err
}

func (w *lagWatch) watch(ctx context.Context, url, slot string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	type mark struct {
		position string
		at       time.Time
	}
	var open []mark
	var over <-chan time.Time
	stop := w.stop
	tick := time.NewTicker(lagInterval)
	defer tick.Stop()
	for {
		var flushed, confirmed string
		err := conn.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text, confirmed_flush_lsn::text FROM pg_replication_slots
			WHERE slot_name = $1`, slot).Scan(&flushed, &confirmed)
		if err != nil {
			return err
		}
		now := time.Now()
		for len(open) > 0 && !ahead(open[0].position, confirmed) {
			w.lags = append(w.lags, now.Sub(open[0].at))
			open = open[1:]
		}
		if stop != nil && (len(open) == 0 || ahead(flushed, open[len(open)-1].position)) && ahead(flushed, confirmed) {
			open = append(open, mark{flushed, now})
		}
		if stop == nil && len(open) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-stop:
			stop, over = nil, time.After(lagTail)
		case <-over:
			for _, m := range open {
				w.lags = append(w.lags, time.Since(m.at))
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ahead tells whether position a lies behind position b. Both are the server's and well formed.
func ahead(a, b string) bool {
	x, _ := lsn.ParseEnd(a)
	y, _ := lsn.ParseEnd(b)
	return x > y
}
