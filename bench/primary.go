package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// without is the name of the line that has no relay.
const without = "without a relay"

var primaryColumns = []column{
	{"commits/s", reached, ""}, {"commit p50 ms", p50, ""}, {"p99 ms", p99, ""}, {"p99 ÷ without", p99, without}, {"p99.9 ms", p999, ""},
	{"Postgres µs", serverEach, ""}, {"WAL B", walEach, ""}, {"dead tuples", deadTuples, ""}, {"other s", otherCPU, ""},
}

// primaryWriters are the application's connections.
const primaryWriters = 8

// saturation is how long the application inserts as fast as it can.
const saturation = 5 * time.Second

// primary lets an application write into a table of its own and into the outbox, one row each in a transaction, at half of
// the rate that saturates the server. Server and application have one half of the processors, relay and Kafka the other, as
// if they were on machines of their own.
func primary(ctx context.Context, s *stage, o Options, section *Section) (err error) {
	restore, err := s.divide(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	most, err := s.saturate(ctx)
	if err != nil {
		return err
	}
	s.say(fmt.Sprintf("the server is saturated by %.0f transactions/s", most))
	list := append([]program{{name: without}, recvlogical, walrelay}, comparators...)
	for range o.Runs {
		for _, p := range list {
			if p.name != without && !o.takesPart(p) {
				continue
			}
			f, err := s.undisturbed("half of the most", p.name, primaryColumns, func() (figures, error) {
				return s.beside(ctx, p, int(most/2), o.Load)
			})
			if err != nil {
				return err
			}
			section.add("half of the most", p.name, f)
		}
	}
	return nil
}

// divide gives the server and this program the first half of the processors.
func (s *stage) divide(ctx context.Context) (restore func() error, err error) {
	half := max(1, runtime.NumCPU()/2)
	first, second := fmt.Sprintf("0-%d", half-1), fmt.Sprintf("%d-%d", min(half, runtime.NumCPU()-1), runtime.NumCPU()-1)
	bind := func(pid int, processors string) error {
		if out, err := exec.CommandContext(ctx, "taskset", "-a", "-p", "-c", processors, strconv.Itoa(pid)).CombinedOutput(); err != nil {
			return fmt.Errorf("bind to processors: %w: %s", err, out)
		}
		return nil
	}
	postgres := s.server.process.Pid()
	err = errors.Join(bind(postgres, first), bind(os.Getpid(), first), bind(s.kafka.Pid(1), second))
	s.bind = func(pid int) error { return bind(pid, second) }
	return func() error {
		all := fmt.Sprintf("0-%d", runtime.NumCPU()-1)
		s.bind = nil
		return errors.Join(bind(postgres, all), bind(os.Getpid(), all), bind(s.kafka.Pid(1), all))
	}, err
}

// saturate measures how many transactions a second are possible.
func (s *stage) saturate(ctx context.Context) (float64, error) {
	database, err := s.database(ctx, workload{})
	if err != nil {
		return 0, err
	}
	var n atomic.Int64
	started := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for range primaryWriters {
		group.Go(func() error {
			return s.application(groupCtx, database, "outbox", func() bool { n.Add(1); return time.Since(started) < saturation }, nil)
		})
	}
	err = group.Wait()
	return float64(n.Load()) / time.Since(started).Seconds(), err
}

// beside measures the application while a relay works.
func (s *stage) beside(ctx context.Context, p program, rate int, during time.Duration) (f figures, err error) {
	w := workload{}
	if err := s.topics(w).renew(ctx, false); err != nil {
		return nil, err
	}
	database, err := s.database(ctx, w)
	if err != nil {
		return nil, err
	}
	url := s.server.url(database)
	j, outbox := job{database: database}, "outbox"
	if p.polls {
		outbox = "outbox_polled"
	}
	pid := 0
	if p.start != nil {
		if !p.polls {
			if j.slot, err = s.newSlot(ctx, url); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, dropSlot(ctx, url, j.slot)) }()
		}
		relay, err := p.start(ctx, s, j)
		if err != nil {
			return nil, err
		}
		defer relay.Kill()
		if err := s.bind(relay.Pid()); err != nil {
			return nil, err
		}
		pid = relay.Pid()
		if j.slot != "" {
			if _, err := walsender(ctx, url, j.slot, relay.alive); err != nil {
				return nil, err
			}
		}
	}
	if err := execute(ctx, url, "CHECKPOINT"); err != nil {
		return nil, err
	}
	if _, err := s.commits(ctx, database, outbox, rate, warmUpJVM); err != nil {
		return nil, err
	}
	return s.during(ctx, database, outbox, pid, rate, during)
}

// during measures one span of the application.
func (s *stage) during(ctx context.Context, database, outbox string, pid, rate int, span time.Duration) (figures, error) {
	wal0, err := s.written(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	cpu0, _ := cpu(pid)
	started := time.Now()
	delays, err := s.commits(ctx, database, outbox, rate, span)
	if err != nil {
		return nil, err
	}
	took := time.Since(started)
	after, err := s.used()
	if err != nil {
		return nil, err
	}
	cpu1, _ := cpu(pid)
	wal1, err := s.written(ctx)
	if err != nil {
		return nil, err
	}
	n := float64(len(delays))
	slices.Sort(delays)
	f := figures{
		reached: n / took.Seconds(), serverEach: (after.postgres - before.postgres) * 1e6 / n, walEach: float64(wal1-wal0) / n,
		otherCPU: after.other(before, cpu1-cpu0), seconds: took.Seconds(),
	}
	for name, share := range map[string]float64{p50: 0.5, p99: 0.99, p999: 0.999} {
		f[name] = millis(percentile(delays, share))
	}
	dead, err := ask[int64](ctx, s.server.url(database), `SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables, pg_stat_force_next_flush()`)
	f[deadTuples] = float64(dead) / (n * float64(span+warmUpJVM) / float64(span))
	return f, err
}

// commits lets the application commit at a rate and returns how long each transaction took.
func (s *stage) commits(ctx context.Context, database, outbox string, rate int, span time.Duration) ([]time.Duration, error) {
	count := int(span.Seconds() * float64(rate))
	delays := make([]time.Duration, count)
	start := time.Now().Add(100 * time.Millisecond)
	group, ctx := errgroup.WithContext(ctx)
	for w := range primaryWriters {
		group.Go(func() error {
			i := w - primaryWriters
			next := func() bool {
				i += primaryWriters
				return i < count && pause(ctx, time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(rate)))) == nil
			}
			return s.application(ctx, database, outbox, next, func(took time.Duration) { delays[i] = took })
		})
	}
	return delays, group.Wait()
}

// application commits a transaction each time that next says so, and tells done how long it took.
func (s *stage) application(ctx context.Context, database, outbox string, next func() bool, done func(time.Duration)) error {
	conn, err := pgx.Connect(ctx, s.server.url(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	sql := "WITH own AS (INSERT INTO ballast VALUES ($1)) INSERT INTO " + outbox +
		" (aggregatetype, aggregateid, type, payload) VALUES ('" + aggregate + "', $1, 'OrderPlaced', $2::text::jsonb)"
	for seq := 1; next(); seq++ {
		began := time.Now()
		if _, err := conn.Exec(ctx, sql, fmt.Sprintf("key-%d", seq%keys), order(seq)); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if done != nil {
			done(time.Since(began))
		}
	}
	return ctx.Err()
}
