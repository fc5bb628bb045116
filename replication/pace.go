package replication

import "time"

// Bounds of the low-water mark and of the time that a burst may gather.
const (
	quietMark = 1
	firstMark = 16 << 10
	lastMark  = 256 << 10
	firstWait = time.Millisecond
	lastWait  = 5 * time.Millisecond
)

// What a stream may do without being gathered: a read each readEvery, readBytes of it counting as one more, of which
// readCredit may come together. A burst in which fewer than idleBytes came was the last one.
const (
	readEvery  = 250 * time.Microsecond
	readBytes  = 3 << 10
	readCredit = 2 * time.Millisecond
	idleBytes  = 1 << 10
)

// pace decides how many bytes the socket gathers before it wakes the reader. The walsender sends every
// message with its own send(); a reader that wakes for each makes both sides slow, and its small reads make
// small Kafka batches. So the mark rises while data keeps coming, and falls back to one byte as soon as the
// stream is quiet, when a single event must not wait.
//
// Reads count, not only bytes: a walsender that must share its processor with whomever it has woken sends slowly
// because it is read too often, and would never look like one that has much to send.
//
// quiet: mark = 1, no wait. burst: firstMark <= mark <= lastMark, wait in proportion.
type pace struct {
	mark int
	due  time.Time // quiet: when what has been read would be due at one read each readEvery
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
	switch {
	case p.mark <= quietMark:
		p.quiet(n, now)
	case n >= p.mark:
		p.mark = min(2*p.mark, lastMark)
	case timedOut && n < idleBytes:
		p.mark, p.due = quietMark, now
	case timedOut && n < p.mark/4:
		p.mark = max(p.mark/2, firstMark)
	}
	return p.mark
}

func (p *pace) quiet(n int, now time.Time) {
	p.mark = quietMark
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(readEvery + readEvery*time.Duration(n)/readBytes)
	if p.due.Sub(now) > readCredit {
		p.mark = firstMark
	}
}
