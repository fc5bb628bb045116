package relay

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	lastPause    = 5 * time.Second
	healthyAfter = 30 * time.Second
)

// backoff paces attempts: full jitter below a bound that doubles, and starts anew after a healthy time.
type backoff struct {
	bound time.Duration
	last  time.Time
}

// wait pauses before the next attempt; it returns early when ctx ends.
func (b *backoff) wait(ctx context.Context) {
	if b.bound == 0 || time.Since(b.last) > healthyAfter {
		b.bound = firstPause
	}
	pause(ctx, rand.N(b.bound))
	b.bound = min(2*b.bound, lastPause)
	b.last = time.Now()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
