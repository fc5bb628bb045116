package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	writers = 6 // connections that insert
	// warmup is how long rows go in before the clock starts. A broker that has just been started compiles its code first, for
	// which it takes most of a core for about ten seconds, and relays live for weeks.
	warmup = 15 * time.Second
)

// latency is what an open loop of single-row transactions has shown.
type latency struct {
	rate             float64       // commits per second that were reached
	p50, p99, max    time.Duration // from the answer to COMMIT to the consumer
	idleCPU          float64       // of the relay, as a share of one core, while nothing was inserted
	otherCPU, loaded float64       // of the rest of the machine, and the seconds it was looked at
}

// latency inserts rows at a rate for some time, after an idle phase. One process inserts and consumes, so one clock
// measures.
func (s *stage) latency(ctx context.Context, rate int, idle, load time.Duration) (result latency, err error) {
	const database, slot = "latency", "bench_latency"
	if err := freshTopic(ctx, s.kafka, false); err != nil {
		return result, err
	}
	if err := createDatabase(ctx, s.server, database); err != nil {
		return result, err
	}
	url := s.server.url(database)
	if err := execute(ctx, url, fmt.Sprintf(`SELECT pg_create_logical_replication_slot('%s', 'pgoutput')`, slot)); err != nil {
		return result, err
	}
	if err := adopt(ctx, url, slot); err != nil {
		return result, err
	}
	relay, err := startRelay(s.binary, url, slot, s.kafka.Bootstrap(), s.dir)
	if err != nil {
		return result, err
	}
	defer relay.process.Kill() // after stop it finds nothing
	if _, err := walsender(ctx, url, slot, relay.alive); err != nil {
		return result, err
	}
	if err := s.measure(ctx, url, relay, rate, idle, load, &result); err != nil {
		return result, err
	}
	_, err = relay.stop()
	return result, errors.Join(err, dropSlot(ctx, url, slot))
}

func (s *stage) measure(ctx context.Context, url string, relay *relay, rate int, idle, load time.Duration, result *latency) error {
	before := span{1, int(warmup.Seconds() * float64(rate)), rate}
	if _, _, err := s.openLoop(ctx, url, relay, before); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := pause(ctx, 2*time.Second); err != nil { // the relay saves its checkpoint meanwhile
		return err
	}
	cpu0, err := preciseCPU(relay.pid())
	if err != nil {
		return err
	}
	if err := pause(ctx, idle); err != nil {
		return err
	}
	cpu1, err := preciseCPU(relay.pid())
	if err != nil {
		return err
	}
	result.idleCPU = (cpu1 - cpu0) / idle.Seconds()

	used0, err := s.used()
	if err != nil {
		return err
	}
	relay0, _ := cpu(relay.pid())
	started := time.Now()
	rows := span{before.count + 1, int(load.Seconds() * float64(rate)), rate}
	delays, took, err := s.openLoop(ctx, url, relay, rows)
	if err != nil {
		return err
	}
	result.loaded = time.Since(started).Seconds()
	result.rate = float64(rows.count) / took.Seconds()
	used1, err := s.used()
	if err != nil {
		return err
	}
	relay1, _ := cpu(relay.pid())
	result.otherCPU = used1.other(used0, relay1-relay0)
	slices.Sort(delays)
	result.p50, result.p99, result.max = percentile(delays, 50), percentile(delays, 99), delays[len(delays)-1]
	return nil
}

// span are the numbers of rows to insert, and how many a second.
type span struct{ first, count, rate int }

// openLoop inserts a span of rows, each when it is due whatever became of those before, one in a transaction, and returns
// for each row the time from the answer to COMMIT to its arrival at a consumer, and how long it took to insert them all.
func (s *stage) openLoop(ctx context.Context, url string, relay *relay, rows span) (delays []time.Duration, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rows.count/rows.rate+30)*time.Second)
	defer cancel()
	committed, arrived := make([]time.Time, rows.count), make([]time.Time, rows.count)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.consume(ctx, relay, rows, arrived) })
	start := time.Now().Add(100 * time.Millisecond)
	for w := range writers {
		group.Go(func() error { return insert(ctx, url, rows, w, start, committed) })
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	for i := range rows.count {
		delays = append(delays, arrived[i].Sub(committed[i]))
		took = max(took, committed[i].Sub(start))
	}
	return delays, took, nil
}

// insert is one writer: it inserts every writers-th row of the span from the w-th on.
func insert(ctx context.Context, url string, rows span, w int, start time.Time, committed []time.Time) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for i := w; i < rows.count; i += writers {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rows.rate))
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `CALL place($1, $1)`, rows.first+i); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		committed[i] = time.Now()
	}
	return nil
}

// consume notes when each row of the span arrives, and returns after the last.
func (s *stage) consume(ctx context.Context, relay *relay, rows span, arrived []time.Time) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	for missing := rows.count; missing > 0; {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("consume (%d rows to come): %w", missing, errors.Join(failed.Err, relay.alive()))
		}
		for records := fetches.RecordIter(); !records.Done(); {
			i := seqOf(records.Next().Value) - rows.first
			if i >= 0 && i < rows.count && arrived[i].IsZero() {
				arrived[i] = now
				missing--
			}
		}
	}
	return nil
}

// pause waits, which for a time that has passed is no time.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// percentile of sorted values, p from 0 to 100.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
