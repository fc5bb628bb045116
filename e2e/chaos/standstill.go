package main

import (
	"context"
	"sync"
	"time"
)

// tick is how often the clock is looked at.
const tick = 50 * time.Millisecond

// standstill notices that the machine, or this process, did not run for a while: a virtual machine that was suspended, or
// one with far too much to do. What took long then says nothing about walrelay, so patience counts running time only.
type standstill struct {
	mu      sync.Mutex
	ran     time.Duration // in all
	longest time.Duration // standstill since the last take
	limits  map[*limit]struct{}
}

// limit ends a context when so much time was run in all.
type limit struct {
	at     time.Duration
	cancel context.CancelCauseFunc
}

// look looks at the clock until ctx ends.
func (s *standstill) look(ctx context.Context) {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		now := time.Now()
		s.passed(now.Sub(last))
		last = now
	}
}

// passed accounts for the time between two looks.
func (s *standstill) passed(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, d-tick)
	s.ran += min(d, time.Second)
	for l := range s.limits {
		if s.ran >= l.at {
			l.cancel(context.DeadlineExceeded)
			delete(s.limits, l)
		}
	}
}

// within is context.WithTimeout for running time.
func (s *standstill) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &limit{at: s.ran + d, cancel: cancel}
	if s.limits == nil {
		s.limits = map[*limit]struct{}{}
	}
	s.limits[l] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.limits, l)
		cancel(context.Canceled)
	}
}

// take returns the longest standstill since the call before.
func (s *standstill) take() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := s.longest
	s.longest = 0
	return longest
}
