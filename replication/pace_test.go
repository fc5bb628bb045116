package replication

import (
	"testing"
	"time"
)

// traffic is what a walsender sends: each transaction's messages one after the other, every gap.
type traffic struct {
	transactions int // a second
	messages     int // in each, of some 200 B on average
	gap          time.Duration
}

const (
	messageBytes = 200
	wakeUp       = 40 * time.Microsecond // from a message to the read that takes it and what has come behind it
)

// feed lets a pace read traffic for some time as a socket with its mark would hand it out. It returns how many reads a
// second it took and how long a message waited at most, both in the second half.
func feed(p *pace, t traffic, span time.Duration) (reads float64, longest time.Duration) {
	start := time.Unix(1000, 0)
	end, half := start.Add(span), start.Add(span/2)
	sent := func(i int) time.Time {
		return start.Add(time.Duration(i/t.messages)*time.Second/time.Duration(t.transactions) + time.Duration(i%t.messages)*t.gap)
	}
	next, now := 0, start
	for now.Before(end) {
		until, timedOut := now.Add(p.wait()), false
		first, last := next, next
		for pending := 0; pending < max(p.mark, 1); last++ {
			at := sent(last)
			if p.mark > quietMark && at.After(until) {
				now, timedOut = until, true
				break
			}
			if at.After(now) {
				now = at
			}
			pending += messageBytes
		}
		for now = now.Add(wakeUp); !sent(last).After(now); last++ {
		}
		p.read((last-first)*messageBytes, timedOut, now)
		if next = last; now.After(half) {
			reads++
			if last > first {
				longest = max(longest, now.Sub(sent(first)))
			}
		}
	}
	return reads / (span / 2).Seconds(), longest
}

func TestPaceFollowsTheLoad(t *testing.T) {
	const micro = time.Microsecond
	for _, c := range []struct {
		name    string
		traffic traffic
		reads   float64       // a second, at most
		longest time.Duration // that a message waits
	}{
		{"100 transactions of one row: nothing waits", traffic{100, 3, 20 * micro}, 300, wakeUp},
		{"1,000 transactions of one row: nothing waits", traffic{1000, 3, 20 * micro}, 3000, wakeUp},
		{"100 transactions of ten rows: nothing waits", traffic{100, 12, 20 * micro}, 1200, wakeUp},
		{"1,000 transactions of ten rows are gathered", traffic{1000, 12, 20 * micro}, 1100, firstWait + wakeUp},
		{"a walsender slowed down by its readers is gathered", traffic{5000, 3, 60 * micro}, 1100, firstWait + wakeUp},
		{"a backlog of small transactions", traffic{60_000, 3, 5 * micro}, 1100, lastWait + wakeUp},
		{"a backlog of large transactions", traffic{3000, 102, 3 * micro}, 400, lastWait + wakeUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			reads, longest := feed(new(pace), c.traffic, time.Second)
			if reads > c.reads || longest > c.longest {
				t.Errorf("%.0f reads a second, a message waits %v; want at most %.0f and %v", reads, longest, c.reads, c.longest)
			}
		})
	}
}

func TestPaceCalmsDown(t *testing.T) {
	p := new(pace)
	feed(p, traffic{3000, 102, 3 * time.Microsecond}, time.Second)
	if p.mark != lastMark || p.wait() != lastWait {
		t.Fatalf("mark %d, wait %v in a backlog", p.mark, p.wait())
	}
	if p.read(500, true, time.Unix(2000, 0)); p.wait() != 0 {
		t.Errorf("a quiet stream waits %v", p.wait())
	}
}
