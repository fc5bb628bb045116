package replication

import "time"

// Bounds of the low-water mark and of the time that a burst may gather.
const (
	quietMark = 1
	firstMark = 16 << 10
	lastMark  = 256 << 10
	firstWait = time.Millisecond
	lastWait  = 5 * time.Millisecond

	// busyBytes within busySpan tell a backlog from a quiet stream.
	busyBytes = 24 << 10
	busySpan  = 2 * time.Millisecond
)

// pace decides how many bytes the socket gathers before it wakes the reader. The walsender sends every
// message with its own send(); a reader that wakes for each makes both sides slow, and its small reads make
// small Kafka batches. So the mark rises while data keeps coming, and falls back to one byte as soon as the
// stream is quiet, when a single event must not wait.
//
// quiet: mark = 1, no wait. burst: firstMark <= mark <= lastMark, wait in proportion.
type pace struct {
	mark  int
	since time.Time // quiet: start of the span in which bytes are counted
	bytes int
}

// wait is how long a read may gather; 0 = until the first byte.
func (p *pace) wait() time.Duration {
	if p.mark <= quietMark {
		return 0
	}
	return max(firstWait, lastWait*time.Duration(p.mark)/lastMark)
}

// read takes note of n bytes that one read brought at the time now; timedOut says that the mark was not
// reached in the burst before it. It returns the new mark.
func (p *pace) read(n int, timedOut bool, now time.Time) int {
	if p.mark <= quietMark {
		return p.quiet(n, now)
	}
	switch {
	case n >= p.mark:
		p.mark = min(2*p.mark, lastMark)
	case timedOut && n < p.mark/4:
		if p.mark /= 2; p.mark < firstMark {
			p.mark, p.bytes = quietMark, 0
		}
	}
	return p.mark
}

func (p *pace) quiet(n int, now time.Time) int {
	if now.Sub(p.since) > busySpan {
		p.since, p.bytes = now, 0
	}
	p.mark = quietMark
	if p.bytes += n; p.bytes >= busyBytes {
		p.mark = firstMark
	}
	return p.mark
}
