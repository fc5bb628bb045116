package main

import (
	"context"
	"sync/atomic"
	"time"
)

// standstill notices that the machine, or this process, did not run for a while: a virtual machine that was suspended, or
// one with far too much to do. What took long then says nothing about walrelay.
type standstill struct {
	longest atomic.Int64 // nanoseconds
}

// look looks at the clock until ctx ends.
func (s *standstill) look(ctx context.Context) {
	const interval = 50 * time.Millisecond
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		now := time.Now()
		if gap := now.Sub(last) - interval; gap > time.Duration(s.longest.Load()) {
			s.longest.Store(int64(gap))
		}
		last = now
	}
}

// stood is the longest standstill since the last call of take.
func (s *standstill) stood() time.Duration { return time.Duration(s.longest.Load()) }

// take returns the longest standstill since the call before.
func (s *standstill) take() time.Duration { return time.Duration(s.longest.Swap(0)) }
