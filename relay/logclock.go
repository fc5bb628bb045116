package relay

import (
	"slices"
	"sync"
	"time"
)

// logClock remembers how far the server's log had come when, so that a distance in bytes can be told as a time. The
// monitor adds, anybody asks.
type logClock struct {
	mu      sync.Mutex
	samples []logSample // both rise
}

type logSample struct {
	end uint64 // of the log
	at  time.Time
}

const (
	// maxLogSamples is more than an hour of looks every ten seconds.
	maxLogSamples = 512
	// logPrecision is how exact an age is kept: to a 32nd of itself, so that years fit.
	logPrecision = 32
)

// add takes note of the end of the log. One that is lower than before is another server's.
func (c *logClock) add(end uint64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.samples); n > 0 && end < c.samples[n-1].end {
		c.samples = c.samples[:0]
	} else if n > 0 && end == c.samples[n-1].end {
		return
	}
	if len(c.samples) >= maxLogSamples {
		c.thin(at)
	}
	c.samples = append(c.samples, logSample{end, at})
}

// thin leaves out what is closer to its predecessor than its age asks for.
func (c *logClock) thin(now time.Time) {
	kept := c.samples[:1]
	for _, sample := range c.samples[1:] {
		if sample.at.Sub(kept[len(kept)-1].at) >= now.Sub(sample.at)/logPrecision {
			kept = append(kept, sample)
		}
	}
	c.samples = kept
}

// age is how long ago the log was first seen to go beyond a position; 0 while it ends there. It is short by at most the
// time between two looks, or a 32nd, and does not reach back behind the first look.
func (c *logClock) age(position uint64, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.samples, position, func(s logSample, position uint64) int {
		if s.end <= position {
			return -1
		}
		return 1
	})
	if i == len(c.samples) {
		return 0
	}
	return max(0, now.Sub(c.samples[i].at))
}
