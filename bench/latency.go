package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// warmUp is how long rows go in before the clock starts. A program on a JVM compiles its code first.
const (
	warmUp    = 3 * time.Second
	warmUpJVM = 10 * time.Second
	// settle is how long a relay may save what it has published before it counts as idle.
	settle = 2 * time.Second
)

// warmLoop keeps the broker busy, unmeasured, with the small requests that an open loop makes. Its JVM compiles other code for
// them than for a drain, for a minute and more: each time, a tenth of a second of a whole processor.
func (s *stage) warmLoop(ctx context.Context, during time.Duration) error {
	if during == 0 {
		return nil
	}
	_, err := s.latency(ctx, walrelay, 10_000, during, 0, time.Second)
	return err
}

// latency lets rows go in at a rate for some time, after an idle phase, while a relay publishes them. One process inserts
// and consumes, so one clock measures.
func (s *stage) latency(ctx context.Context, p program, rate int, warm, idle, during time.Duration) (result figures, err error) {
	w := workload{}
	if err := s.topics(w).renew(ctx, false); err != nil {
		return nil, err
	}
	database, err := s.database(ctx, w)
	if err != nil {
		return nil, err
	}
	url := s.server.url(database)
	j := job{database: database}
	l := load{stage: s, url: url, table: "outbox", rate: rate, perTx: rowsInTransactionAt(rate)}
	if p.polls {
		l.table = "outbox_polled"
	} else if j.slot, err = s.newSlot(ctx, url); err != nil {
		return nil, err
	}
	if l.relay, err = p.start(ctx, s, j); err != nil {
		return nil, err
	}
	defer l.relay.Kill() // after stop it finds nothing
	if j.slot != "" {
		if _, err := walsender(ctx, url, j.slot, l.relay.alive); err != nil {
			return nil, err
		}
	}
	if result, err = l.measure(ctx, j.slot, warm, idle, during); err != nil {
		return nil, err
	}
	if err := l.relay.stop(); err != nil || j.slot == "" {
		return result, err
	}
	return result, errors.Join(dropSlot(ctx, url, j.slot), execute(ctx, s.server.url("postgres"), "DROP DATABASE "+database+" WITH (FORCE)"))
}

func (l *load) measure(ctx context.Context, slot string, warm, idle, during time.Duration) (figures, error) {
	if _, err := l.run(ctx, warm); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	result := figures{}
	if idle > 0 {
		if err := l.idle(ctx, idle, result); err != nil {
			return nil, err
		}
	}
	pid := l.relay.Pid()
	used0, err := l.stage.used()
	if err != nil {
		return nil, err
	}
	cpu0, err := preciseCPU(pid)
	if err != nil {
		return nil, err
	}
	lag := watchLag(ctx, l.url, slot)
	started := time.Now()
	passed, err := l.run(ctx, during)
	if err = errors.Join(err, lag.end(result)); err != nil {
		return nil, err
	}
	took := time.Since(started)
	cpu1, err := preciseCPU(pid)
	if err != nil {
		return nil, err
	}
	used1, err := l.stage.used()
	if err != nil {
		return nil, err
	}
	slices.Sort(passed.delays)
	result[reached] = float64(len(passed.delays)) / passed.took.Seconds()
	for name, share := range map[string]float64{p50: 0.5, p99: 0.99, p999: 0.999, longest: 1} {
		result[name] = millis(percentile(passed.delays, share))
	}
	result[loadCPU] = (cpu1 - cpu0) / took.Seconds() * 100
	result[cpuEach] = (cpu1 - cpu0) * 1e6 / float64(len(passed.delays))
	result[otherCPU], result[seconds] = used1.other(used0, cpu1-cpu0), took.Seconds()
	result[peakRSS], err = vmHWM(pid)
	return result, err
}

// idle watches the relay while nothing goes in.
func (l *load) idle(ctx context.Context, span time.Duration, result figures) error {
	if err := pause(ctx, settle); err != nil { // the relay saves its checkpoint meanwhile
		return err
	}
	wal0, err := l.stage.written(ctx)
	if err != nil {
		return err
	}
	cpu0, err := preciseCPU(l.relay.Pid())
	if err != nil {
		return err
	}
	if err := pause(ctx, span); err != nil {
		return err
	}
	cpu1, err := preciseCPU(l.relay.Pid())
	if err != nil {
		return err
	}
	wal1, err := l.stage.written(ctx)
	if err != nil {
		return err
	}
	result[idleCPU] = (cpu1 - cpu0) / span.Seconds() * 100
	result[idleWAL] = float64(wal1-wal0) / 1000 * float64(time.Hour) / float64(span)
	result[idleRSS], err = vmRSS(l.relay.Pid())
	return err
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

// percentile of sorted values, the share from 0 to 1.
func percentile(sorted []time.Duration, share float64) time.Duration {
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*share))]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
