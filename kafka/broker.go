package kafka

import (
	"time"

	"go.uber.org/zap"
)

const (
	// maxLanes is how many requests a broker may have at once, each on a connection of its own: a broker handles one
	// request per connection at a time, and with acks=all it answers when the slowest follower of the request has it.
	maxLanes = 4
	// requestBytes is the most that a request carries, unless a single batch is larger.
	requestBytes = 4 << 20
	// spreadBytes and spreadAge tell when a further request starts beside one that is under way: when there is enough
	// for a good one, or when the one under way is slow. Otherwise waiting makes larger batches.
	spreadBytes = 256 << 10
	spreadAge   = 10 * time.Millisecond
	// laneIdle is after how long without work a lane closes its connection and ends.
	laneIdle = 5 * time.Minute

	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Second
)

// backoff is the pause after so many failures in a row.
func backoff(failures int) time.Duration {
	return min(minBackoff<<min(failures, 10), maxBackoff)
}

// broker is one broker of the cluster and what it has to take. Guarded by Producer.mu.
type broker struct {
	id   int32
	addr string

	ready      partitionList // leads them, and they have a batch to send now
	readyBytes int           // of their first batches
	readySince time.Time     // when ready was last empty
	paused     partitionList // leads them, and they wait for pauseUntil

	lanes   int           // goroutines
	idle    int           // lanes that wait for work
	flying  []*lane       // lanes with a request under way
	dialing bool          // a lane is connecting
	wake    chan struct{} // wakes one idle lane; capacity 1

	failures int       // connections lost or refused since the last answer
	dialAt   time.Time // not before
	failing  failure
}

func newBroker(id int32) *broker { return &broker{id: id, wake: make(chan struct{}, 1)} }

// youngest is when the newest of the requests under way was started.
func (b *broker) youngest() time.Time {
	var t time.Time
	for _, l := range b.flying {
		t = later(t, l.started)
	}
	return t
}

// resume brings paused partitions back whose time has come, and tells when the next one's comes. Zero: none is paused.
func (b *broker) resume(now time.Time) time.Time {
	var first time.Time
	for pt := b.paused.head; pt != nil; {
		next := pt.next
		if !now.Before(pt.pauseUntil) {
			b.paused.remove(pt)
			b.makeReady(pt, now)
		} else if first.IsZero() || pt.pauseUntil.Before(first) {
			first = pt.pauseUntil
		}
		pt = next
	}
	return first
}

func (b *broker) makeReady(pt *partition, now time.Time) {
	if b.ready.head == nil {
		b.readySince = now
	}
	pt.place = ready
	pt.counted = pt.head.size()
	b.readyBytes += pt.counted
	b.ready.push(pt)
}

func (b *broker) unready(pt *partition) {
	b.ready.remove(pt)
	b.readyBytes -= pt.counted
	pt.counted = 0
}

// startAt tells when a lane may start the next request. ok is false when there is nothing to start before something
// else happens, of which the lane is told by wake.
func (b *broker) startAt(now time.Time, connected, held bool, linger time.Duration) (at time.Time, ok bool) {
	resumes := b.resume(now)
	if b.ready.head == nil {
		return resumes, !resumes.IsZero()
	}
	if !connected {
		if b.dialing {
			return time.Time{}, false
		}
		at = b.dialAt
	}
	if b.readyBytes < spreadBytes {
		if held {
			return time.Time{}, false // Send wakes
		}
		if linger > 0 {
			at = later(at, b.readySince.Add(linger))
		}
		if len(b.flying) > 0 {
			at = later(at, b.youngest().Add(spreadAge))
		}
	}
	return at, true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// signal sees to it that a lane looks after the broker: an idle one, or a new one.
func (p *Producer) signal(b *broker) {
	if b.idle > 0 {
		select {
		case b.wake <- struct{}{}:
		default: // one has been woken and has not looked yet
		}
		return
	}
	if b.lanes < maxLanes && !p.stopped {
		b.lanes++
		p.startLane(newLane(p, b))
	}
}

// schedule puts a partition where it belongs now.
func (p *Producer) schedule(pt *partition, now time.Time) {
	p.unschedule(pt)
	switch b := pt.broker; {
	case pt.place == flying:
	case pt.head == nil:
		pt.place = idle
	case b == nil:
		pt.place = leaderless
		pt.failing.note(now, errNoLeader)
		p.ask(pt.topic, now)
	case now.Before(pt.pauseUntil):
		pt.place = paused
		b.paused.push(pt)
		p.signal(b)
	default:
		b.makeReady(pt, now)
		if !p.held {
			p.signal(b)
		}
	}
}

// unschedule takes a partition out of its broker's lists.
func (p *Producer) unschedule(pt *partition) {
	switch pt.place {
	case ready:
		pt.broker.unready(pt)
		pt.place = idle
	case paused:
		pt.broker.paused.remove(pt)
		pt.place = idle
	}
}

// lead gives a partition to its leader. A pause that was meant for another leader ends.
func (p *Producer) lead(pt *partition, leader *broker, id, epoch int32, now time.Time) {
	if pt.leader == id && pt.leaderEpoch == epoch && pt.broker == leader {
		return
	}
	p.unschedule(pt)
	if pt.leaderEpoch >= 0 && pt.broker != leader && leader != nil {
		p.stats.LeaderChanges++
	}
	pt.leader, pt.leaderEpoch, pt.broker = id, epoch, leader
	if pt.halt == nil {
		pt.pauseUntil, pt.failures = time.Time{}, 0
	}
	p.schedule(pt, now)
}

// lost takes note of a broken or refused connection. The first one is tried again at once: brokers close connections
// that are idle, or when they restart.
func (p *Producer) lost(b *broker, err error, now time.Time) {
	b.failing.note(now, err)
	b.dialAt = now
	if b.failures > 0 {
		b.dialAt = now.Add(backoff(b.failures - 1))
	}
	b.failures++
	if b.failures == 2 {
		p.log.Warn("kafka broker lost", zap.Int32("broker", b.id), zap.String("address", b.addr), zap.Error(err))
	}
	p.askAll(now)
}

// regained takes note of an answer.
func (p *Producer) regained(b *broker) {
	if b.failures > 1 {
		p.log.Info("kafka broker regained", zap.Int32("broker", b.id), zap.Duration("after", time.Since(b.failing.since)))
	}
	b.failures, b.failing, b.dialAt = 0, failure{}, time.Time{}
}
