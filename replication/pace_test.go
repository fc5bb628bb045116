package replication

import (
	"testing"
	"time"
)

// feed lets the stream bring bytes per second for the given time, as a socket with this pace would hand them
// out, and returns the marks seen at the end.
func feed(p *pace, perSecond int, span time.Duration) (low, high int) {
	start := time.Unix(1000, 0)
	low, high = 1<<30, 0
	half := start.Add(span / 2)
	for now := start; now.Before(start.Add(span)); {
		wait, timedOut := 50*time.Microsecond, false // what one wake-up costs
		if p.mark > quietMark {
			full := time.Duration(float64(p.mark) / float64(perSecond) * float64(time.Second))
			if wait = max(wait, full); full > p.wait() {
				wait, timedOut = p.wait(), true
			}
		}
		now = now.Add(wait)
		n := int(float64(perSecond)*wait.Seconds()) + 1
		mark := p.read(n, timedOut, now)
		if now.After(half) {
			low, high = min(low, mark), max(high, mark)
		}
	}
	return low, high
}

func TestPaceFollowsTheLoad(t *testing.T) {
	for _, c := range []struct {
		name      string
		perSecond int
		low, high int // bounds of the mark in the steady state
	}{
		{"1,000 events a second stay at one byte", 600_000, quietMark, quietMark},
		{"10,000 events a second stay at one byte", 6_000_000, quietMark, quietMark},
		{"a backlog of small transactions gathers", 35_000_000, firstMark, lastMark},
		{"a backlog of large transactions gathers most", 65_000_000, lastMark / 2, lastMark},
	} {
		t.Run(c.name, func(t *testing.T) {
			low, high := feed(new(pace), c.perSecond, time.Second)
			if low < c.low || high > c.high {
				t.Errorf("mark between %d and %d, want it within %d and %d", low, high, c.low, c.high)
			}
		})
	}
}

func TestPaceCalmsDown(t *testing.T) {
	p := new(pace)
	feed(p, 65_000_000, time.Second)
	if p.mark != lastMark {
		t.Fatalf("mark %d in a backlog", p.mark)
	}
	var waited time.Duration
	for p.mark > quietMark {
		waited += p.wait()
		p.read(500, true, time.Unix(2000, 0))
	}
	if waited > 15*time.Millisecond {
		t.Errorf("the stream gathers for %v after the backlog has ended", waited)
	}
	if p.wait() != 0 {
		t.Error("a quiet stream waits")
	}
}
