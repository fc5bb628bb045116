package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/walrelay/walrelay/internal/workload"
)

func killPostgres(ctx context.Context, a *arena, s strike) error {
	if err := a.postgres.Kill(); err != nil {
		return err
	}
	return a.backPostgres(ctx, s)
}

func restartFast(ctx context.Context, a *arena, s strike) error {
	return a.restartPostgres(ctx, s, "fast")
}

func restartImmediate(ctx context.Context, a *arena, s strike) error {
	return a.restartPostgres(ctx, s, "immediate")
}

// restartPostgres fails when the relay holds the shutdown up.
func (a *arena) restartPostgres(ctx context.Context, s strike, mode string) error {
	limit, cancel := a.within(ctx, 30*time.Second)
	defer cancel()
	if err := a.postgres.Stop(limit, mode); err != nil {
		return err
	}
	return a.backPostgres(ctx, s)
}

func (a *arena) backPostgres(ctx context.Context, s strike) error {
	if err := pause(ctx, s.lasts); err != nil {
		return err
	}
	ctx, cancel := a.within(ctx, recovery)
	defer cancel()
	return a.postgres.Start(ctx)
}

// each does f for all brokers of the strike at once.
func (s strike) each(f func(id int32) error) error {
	var ended sync.WaitGroup
	errs := make([]error, len(s.brokers))
	for i, id := range s.brokers {
		ended.Go(func() { errs[i] = f(id) })
	}
	ended.Wait()
	return errors.Join(errs...)
}

func killBrokers(ctx context.Context, a *arena, s strike) error {
	if err := s.each(a.kafka.Kill); err != nil {
		return err
	}
	return a.backBrokers(ctx, s)
}

// restartBrokers stops brokers in order, or kills those that take long, such as the last that could take over.
func restartBrokers(ctx context.Context, a *arena, s strike) error {
	err := s.each(func(id int32) error {
		limit, cancel := a.within(ctx, 3*time.Second)
		defer cancel()
		if a.kafka.StopNode(limit, id) == nil {
			return nil
		}
		return a.kafka.Kill(id)
	})
	if err != nil {
		return err
	}
	return a.backBrokers(ctx, s)
}

func (a *arena) backBrokers(ctx context.Context, s strike) error {
	if err := pause(ctx, s.lasts); err != nil {
		return err
	}
	ctx, cancel := a.within(ctx, recovery)
	defer cancel()
	return s.each(func(id int32) error { return a.kafka.StartNode(ctx, id) })
}

func freezeBrokers(ctx context.Context, a *arena, s strike) error {
	if err := s.each(a.kafka.Pause); err != nil {
		return err
	}
	return errors.Join(pause(ctx, s.lasts), s.each(a.kafka.Continue))
}

// slowBroker lets one broker run a quarter of the time: a leader that answers late, or a follower that lags.
func slowBroker(ctx context.Context, a *arena, s strike) error {
	id := s.brokers[0]
	for began := time.Now(); time.Since(began) < 2*s.lasts; {
		err := errors.Join(a.kafka.Pause(id), pause(ctx, 90*time.Millisecond), a.kafka.Continue(id), pause(ctx, 30*time.Millisecond))
		if err != nil {
			return err
		}
	}
	return nil
}

// burst writes a transaction that is larger than what may be in flight. A server may be away, then nothing is written.
func burst(ctx context.Context, a *arena, _ strike) error {
	if err := workload.Burst(ctx, a.postgres.URL(database), 100_000); err != nil && a.alone {
		return fmt.Errorf("write 100,000 rows: %w", err)
	}
	return nil
}
