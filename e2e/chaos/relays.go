package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/relay"
)

// replace kills the relay and starts the next.
func (a *arena) replace() error {
	if err := a.killOurs(a.relay); err != nil {
		return err
	}
	next, err := a.launch()
	a.relay = next
	return err
}

// killOurs kills a relay, which must have lived until now.
func (a *arena) killOurs(r *relaytest.Process) error {
	if err := r.Ended(); err != nil {
		return err
	}
	return r.Kill()
}

// takeOver waits until the relay publishes, when nothing else happens, and measures it. The first relay of a slot's life does
// not count before its first record: its successor waits 5 s, for it does not know that there was none.
func (a *arena) takeOver(ctx context.Context, since time.Time) error {
	if !a.alone || !a.published {
		return nil
	}
	ctx, cancel := a.within(ctx, recovery)
	defer cancel()
	if err := relaytest.Await(ctx, func() error { return a.relay.HasPublished(ctx) }, a.relay); err != nil {
		return fmt.Errorf("wait until the next relay publishes: %w", err)
	}
	a.takeover = time.Since(since)
	return nil
}

func killRelay(ctx context.Context, a *arena, _ strike) error {
	killed := time.Now()
	if err := a.replace(); err != nil {
		return err
	}
	return a.takeOver(ctx, killed)
}

// killRelays kills up to five in a row, in the middle of their start.
func killRelays(ctx context.Context, a *arena, s strike) error {
	n := 2 + int(s.dice*4)
	for range n {
		if err := a.replace(); err != nil {
			return err
		}
		if err := pause(ctx, s.lasts/time.Duration(n)); err != nil {
			return err
		}
	}
	return nil
}

// startStandby starts a second relay. Where the servers allow it, it waits until that stands by.
func (a *arena) startStandby(ctx context.Context) (*relaytest.Process, error) {
	standby, err := a.launch()
	if err != nil {
		return nil, err
	}
	limit := 3 * time.Second
	if a.alone {
		limit = recovery
	}
	ctx, cancel := a.within(ctx, limit)
	defer cancel()
	err = relaytest.Await(ctx, func() error {
		if s, err := standby.Status(ctx); err != nil || s.State != relay.Standby {
			return errors.Join(err, errors.New("it does not stand by"))
		}
		return nil
	}, standby)
	if ended := standby.Ended(); ended != nil {
		return nil, ended
	}
	if a.alone {
		return standby, err
	}
	return standby, nil
}

func killBesideStandby(ctx context.Context, a *arena, _ strike) error {
	standby, err := a.startStandby(ctx)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := a.killOurs(a.relay); err != nil {
		return err
	}
	a.relay = standby
	return a.takeOver(ctx, killed)
}

// freezeRelay freezes the relay until another has taken over, and a while longer. When it wakes up, it must write nothing.
// Then one of the two is killed.
func freezeRelay(ctx context.Context, a *arena, s strike) error {
	standby, err := a.startStandby(ctx)
	if err != nil {
		return err
	}
	frozen := a.relay
	if err := process.Freeze(frozen.Pid()); err != nil {
		return err
	}
	if s.dice < 0.8 { // else the server has to notice, which takes it wal_sender_timeout
		a.endWalsender(ctx)
	}
	patience := 2 * walSenderTimeout
	if a.alone {
		patience = recovery
	}
	limit, cancel := a.within(ctx, patience)
	defer cancel()
	err = relaytest.Await(limit, func() error { return standby.HasPublished(limit) }, standby)
	if err != nil && (a.alone || ctx.Err() != nil) {
		return fmt.Errorf("another relay is frozen, but this one does not take over: %w", err)
	}
	if err := errors.Join(pause(ctx, s.lasts), process.Thaw(frozen.Pid()), pause(ctx, s.lasts/2)); err != nil {
		return err
	}
	a.relay = standby
	if int(s.dice*100)%2 == 0 {
		a.relay, frozen = frozen, standby
	}
	return a.killOurs(frozen)
}

// killUnacknowledged kills the relay with batches on the wire, or in the log of a leader whose followers do not have them.
func killUnacknowledged(ctx context.Context, a *arena, s strike) error {
	if err := s.each(a.kafka.Pause); err != nil {
		return err
	}
	err := errors.Join(pause(ctx, s.lasts/2), a.replace(), pause(ctx, s.lasts/2))
	return errors.Join(err, s.each(a.kafka.Continue))
}

// stopRelay ends the relay as an operator does. With the servers at hand it must end well.
func stopRelay(ctx context.Context, a *arena, _ strike) error {
	if err := a.relay.Ended(); err != nil {
		return err
	}
	ctx, cancel := a.within(ctx, recovery)
	defer cancel()
	if err := a.relay.Stop(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	if err := a.relay.Err(); err != nil && a.alone {
		return fmt.Errorf("SIGTERM: %w", a.relay.Ended())
	}
	next, err := a.launch()
	a.relay = next
	return err
}
