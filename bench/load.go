package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// load is an application that inserts into an outbox at a rate, and a consumer of its events.
type load struct {
	stage *stage
	url   string
	table string
	rate  int // rows a second
	perTx int // rows in a transaction
	relay *running
	done  int // rows so far
}

// writers is how many connections insert: enough that commits that are flushed together reach the rate.
func (l *load) writers() int { return max(6, l.rate/l.perTx/400) }

// passage is what one run of the load has shown: the time from COMMIT's answer to the consumer for each row, and how long it
// took to insert them all.
type passage struct {
	delays []time.Duration
	took   time.Duration
}

// run inserts for some time, each row when it is due whatever became of those before, and waits until all have arrived.
func (l *load) run(ctx context.Context, span time.Duration) (passage, error) {
	count := int(span.Seconds() * float64(l.rate))
	ctx, cancel := context.WithTimeout(ctx, span+3*time.Minute)
	defer cancel()
	committed, arrived := make([]time.Time, count), make([]time.Time, count)
	client, err := l.consumer(ctx)
	if err != nil {
		return passage{}, err
	}
	defer client.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.consume(ctx, client, arrived) })
	start := time.Now().Add(200 * time.Millisecond)
	for w := range l.writers() {
		group.Go(func() error { return l.insert(ctx, w, start, committed) })
	}
	if err := group.Wait(); err != nil {
		return passage{}, err
	}
	l.done += count
	var p passage
	for i := range count {
		p.delays = append(p.delays, arrived[i].Sub(committed[i]))
		p.took = max(p.took, committed[i].Sub(start))
	}
	return p, nil
}

// order is the payload of a row, about as long as that of the SQL function payload. The blank is what jsonb writes.
func order(seq int) string {
	return fmt.Sprintf(`{"seq": %d, "order": "order-%d", "customer": "customer-%d", "status": "placed", "currency": "EUR", "total": %d.%02d, `+
		`"lines": [{"sku": "SKU-%d", "count": %d, "price": 12.25}, {"sku": "SKU-%d", "count": 2, "price": 12.5}], `+
		`"remark": "leave it with the neighbours, please"}`, seq, seq, seq%9999, seq%1000, seq%100, seq%5000, 1+seq%7, seq%777)
}

// insert is one writer: it commits every writers-th transaction from the w-th on.
func (l *load) insert(ctx context.Context, w int, start time.Time, committed []time.Time) error {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	sql := "INSERT INTO " + l.table + " (aggregatetype, aggregateid, type, payload) SELECT '" + aggregate +
		"', key, 'OrderPlaced', payload::jsonb FROM unnest($1::text[], $2::text[]) AS event (key, payload)"
	for i := w * l.perTx; i < len(committed); i += l.writers() * l.perTx {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		rows := committed[i:min(i+l.perTx, len(committed))]
		ids, payloads := make([]string, len(rows)), make([]string, len(rows))
		for n := range rows {
			seq := l.done + i + n + 1
			ids[n], payloads[n] = fmt.Sprintf("key-%d", seq%keys), order(seq)
		}
		if _, err := conn.Exec(ctx, sql, ids, payloads); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		now := time.Now()
		for n := range rows {
			rows[n] = now
		}
	}
	return nil
}

// consumer reads what is appended from now on.
func (l *load) consumer(ctx context.Context) (*kgo.Client, error) {
	ends, err := l.stage.topics(workload{}).offsets(ctx, endOffset)
	if err != nil {
		return nil, err
	}
	from := map[int32]kgo.Offset{}
	for _, p := range ends {
		from[p.Partition] = kgo.NewOffset().At(p.Offset)
	}
	return kgo.NewClient(kgo.SeedBrokers(l.stage.kafka.Bootstrap()...), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
}

// consume notes when each row arrives, and returns after the last.
func (l *load) consume(ctx context.Context, client *kgo.Client, arrived []time.Time) error {
	for missing := len(arrived); missing > 0; {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("consume (%d rows to come): %w", missing, errors.Join(failed.Err, l.relay.alive()))
		}
		for records := fetches.RecordIter(); !records.Done(); {
			i := seqOf(records.Next().Value) - l.done - 1
			if i >= 0 && i < len(arrived) && arrived[i].IsZero() {
				arrived[i] = now
				missing--
			}
		}
	}
	return nil
}
