package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// poll asks until done says so, reviving what has ended by itself.
func (t *trial) poll(ctx context.Context, what string, done func() (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		for _, w := range []*worker{t.service, t.relay, t.consumer} {
			if w.running != nil {
				if err := w.revive(); err != nil {
					return err
				}
			}
		}
		if !pause(limited, 50*time.Millisecond) {
			return fmt.Errorf("waited in vain for %s: %v (%w)", what, err, context.Cause(limited))
		}
	}
}

func (t *trial) awaitService(ctx context.Context) error {
	l := newLoad(t.address)
	return t.poll(ctx, "the service", func() (bool, error) {
		err := l.request(ctx, "GET", "/healthz", "")
		return err == nil, err
	})
}

// awaitProgress waits until orders were paid and events booked since the call.
func (t *trial) awaitProgress(ctx context.Context, l *load) error {
	const some = 20
	paid := l.paid.Load()
	booked, _ := t.booked(ctx) // there may be no ledger yet
	return t.poll(ctx, "orders and bookings to go on", func() (bool, error) {
		now, err := t.booked(ctx)
		return err == nil && l.paid.Load() >= paid+some && now >= booked+some, err
	})
}

// booked is how many different events have an effect.
func (t *trial) booked(ctx context.Context) (n int64, err error) {
	return count(ctx, t.billing, `SELECT count(DISTINCT event_id) FROM ledger`)
}

// audit waits until every event has its effect, and then looks for what is wrong.
func (t *trial) audit(ctx context.Context, l *load) (string, error) {
	want := 2 * l.paid.Load()
	err := t.poll(ctx, fmt.Sprintf("%d events to be booked", want), func() (bool, error) {
		n, err := t.booked(ctx)
		if err == nil {
			err = fmt.Errorf("%d are", n)
		}
		return n >= want, err
	})
	if err != nil {
		return "", err
	}
	found := map[string]int64{}
	for _, c := range []struct{ name, url, query string }{
		{"orders", t.shop, `SELECT count(*) FROM orders WHERE state = 'paid'`},
		{"events", t.shop, `SELECT count(*) FROM outbox`},
		{"effects", t.billing, `SELECT count(*) FROM ledger`},
		{"twice", t.billing, `SELECT count(*) - count(DISTINCT event_id) FROM ledger`},
		{"disorder", t.billing, `SELECT count(*) FROM (SELECT body ~ 'amount' AS created, row_number() OVER (PARTITION BY order_id ORDER BY seq) AS n FROM ledger) e
			WHERE created <> (n = 1)`},
	} {
		if found[c.name], err = count(ctx, c.url, c.query); err != nil {
			return "", err
		}
	}
	summary := fmt.Sprintf("%d orders, %d events, %d effects, %d of them twice, %d out of order",
		found["orders"], found["events"], found["effects"], found["twice"], found["disorder"])
	if 2*found["orders"] != want || found["events"] != want || found["effects"] != want || found["twice"]+found["disorder"] != 0 {
		return "", fmt.Errorf("want %d events, each with its effect once: %s", want, summary)
	}
	return summary, nil
}

func count(ctx context.Context, url, query string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server notices
	return n, conn.QueryRow(ctx, query).Scan(&n)
}
