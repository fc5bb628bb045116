package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/internal/workload"
)

// ground is what servers a round has.
type ground struct {
	Postgres string `json:"postgres"` // major version
	Brokers  int    `json:"brokers"`
}

// grounds take turns.
var grounds = []ground{{"18", 1}, {"15", 3}, {"18", 3}, {"15", 1}}

// but is the ground with what is set in other.
func (g ground) but(other ground) ground {
	return ground{cmp.Or(other.Postgres, g.Postgres), cmp.Or(other.Brokers, g.Brokers)}
}

// round is some cycles on the same servers, and their audit.
type round struct {
	binary string
	keep   bool      // its folder
	out    io.Writer // for progress
	ground
	outcome
}

// run fills in the outcome. Its error is that of the outcome, or ctx's; it has been said.
func (r *round) run(ctx context.Context) error {
	fmt.Fprintf(r.out, "round of %d cycles on PostgreSQL %s and %d broker(s), SEED=%d\n", r.Cycles, r.Postgres, r.Brokers, r.Seed)
	began := time.Now()
	dir, err := newDir(r.Seed)
	if err != nil {
		return err
	}
	a := &arena{dir: dir, binary: r.binary}
	planned := r.Cycles
	err = r.fight(ctx, a)
	r.Seconds = time.Since(began).Round(time.Second).Seconds()
	if left := a.leave(); err == nil {
		err = left
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), os.RemoveAll(dir))
	}
	if err != nil {
		r.Failed = err.Error()
		fmt.Fprintf(r.out, "FAILED after %d cycles: %v\nlogs and data: %s\nagain: make chaos SEED=%d CYCLES=%d POSTGRES=%s BROKERS=%d\n",
			r.Cycles, err, dir, r.Seed, planned, r.Postgres, r.Brokers)
		return err
	}
	fmt.Fprintf(r.out, "%d events, nothing lost, reordered, duplicated or foreign; %.0f s\n", r.Events, r.Seconds)
	if r.keep {
		fmt.Fprintln(r.out, "logs and data:", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// fight is the round itself. Cycles becomes those that were survived.
func (r *round) fight(ctx context.Context, a *arena) error {
	planned := r.Cycles
	r.Cycles, r.Faults = 0, map[string]int{}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { a.look(watching) })
	defer watch.Wait()
	defer stop()
	if err := a.enter(ctx, r.ground); err != nil {
		return err
	}
	load := workload.Start(ctx, a.postgres.URL(database),
		workload.Options{Seed: r.Seed, Writers: 4, Pause: 30 * time.Millisecond, Mix: workload.Everything})
	defer func() { _ = load.Finish() }() // finished already, unless something has failed
	rng := rand.New(rand.NewPCG(r.Seed, math.MaxUint64))
	for r.Cycles < planned {
		strikes := plan(rng, r.Brokers)
		began := time.Now()
		if err := a.cycle(ctx, strikes); err != nil {
			return fmt.Errorf("in the cycle %s: %w", describe(strikes), err)
		}
		r.Cycles, a.published = r.Cycles+1, true
		for _, s := range strikes {
			r.Faults[s.name]++
		}
		took, still := math.Round(time.Since(began).Seconds()*10)/10, a.take()
		fmt.Fprintf(r.out, "%4d/%d %5.1f s  %s\n", r.Cycles, planned, took, describe(strikes))
		if still > time.Second {
			fmt.Fprintf(r.out, "          the machine stood still for %v\n", still.Round(time.Millisecond))
			continue // this time is not walrelay's
		}
		r.Slowest = max(r.Slowest, took)
		r.MaxTakeover = max(r.MaxTakeover, math.Round(a.takeover.Seconds()*1000)/1000)
	}
	if err := load.Finish(); err != nil {
		return err
	}
	r.Transactions = load.Counts()
	if err := a.caughtUp(ctx); err != nil {
		return err
	}
	a.alone = true
	limit, cancel := a.within(ctx, recovery)
	defer cancel()
	if err := a.relay.Stop(limit, syscall.SIGTERM); err != nil {
		return err
	}
	return r.judge(limit, a)
}

// cycle lets the strikes happen at once and waits until the relay has recovered.
func (a *arena) cycle(ctx context.Context, strikes []strike) error {
	a.alone, a.takeover = len(strikes) == 1, 0
	a.take()
	var ended sync.WaitGroup
	errs := make([]error, len(strikes))
	for i, s := range strikes {
		ended.Go(func() {
			if errs[i] = pause(ctx, s.at); errs[i] == nil {
				errs[i] = s.happen(ctx, a, s)
			}
		})
	}
	ended.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return a.caughtUp(ctx)
}

// judge audits the topics.
func (r *round) judge(ctx context.Context, a *arena) error {
	report, err := workload.Audit(ctx, a.postgres.URL(database), a.kafka.Bootstrap())
	r.Events, r.Lost, r.Reordered = report.Inserted, report.Lost.Count, report.Reordered.Count
	r.Duplicated, r.Foreign = report.Duplicated.Count, report.Foreign.Count
	if err == nil && (!r.clean() || r.Foreign > 0) {
		err = errors.New(report.String())
	}
	return err
}
