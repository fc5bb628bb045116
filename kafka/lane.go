package kafka

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// lane sends batches to one broker over one connection, one request at a time. Several lanes of a broker share its work:
// a partition is with one of them at most.
type lane struct {
	p    *Producer
	b    *broker
	conn *conn // nil: not connected

	waiting  bool // counted in broker.idle
	producer identity
	items    []item // the request under way, by topic and partition
	started  time.Time
	probed   time.Time // when metadata was last asked for because of a late answer

	request rawproduce.Request // reused
	readers []chunkReader      // of the batches of request
	acks    []BatchAck         // for Config.OnBatch
}

// item is one partition's batch in a request.
type item struct {
	*partition
	batch    *batch
	answered bool
}

func newLane(p *Producer, b *broker) *lane {
	return &lane{p: p, b: b, request: rawproduce.Request{
		Acks:    -1, // all in-sync replicas
		Timeout: int32(p.cfg.RequestTimeout.Milliseconds() / 2),
	}}
}

// run works until ctx ends or there was nothing to do for long.
func (l *lane) run(ctx context.Context) error {
	defer l.disconnect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		switch l.step(ctx, timer) {
		case laneEnds:
			return nil
		case laneDials:
			l.connect(ctx)
		case laneSends:
			if err := l.send(ctx); err != nil {
				return err
			}
		}
	}
}

// laneStep is what a lane does next.
type laneStep byte

const (
	laneEnds laneStep = iota
	laneDials
	laneSends
)

// step waits until there is something to do.
func (l *lane) step(ctx context.Context, timer *time.Timer) laneStep {
	idleSince := time.Now()
	for {
		now := time.Now()
		if l.conn != nil && l.conn.stale(now) {
			l.disconnect()
		}
		step, at, ok := l.decide(now, idleSince)
		if ok {
			return step
		}
		if at.IsZero() {
			at = idleSince.Add(laneIdle)
		}
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return laneEnds
		case <-l.b.wake:
		case <-timer.C:
		}
	}
}

// decide takes the next request, or tells when to look again; zero: when woken.
func (l *lane) decide(now, idleSince time.Time) (step laneStep, at time.Time, ok bool) {
	p, b := l.p, l.b
	p.mu.Lock()
	defer p.mu.Unlock()
	l.setWaiting(false)
	if l.conn != nil && l.conn.addr != b.addr {
		l.disconnect()
	}
	at, work := b.startAt(now, l.conn != nil, p.held, p.cfg.Linger)
	tired := b.ready.head == nil && b.paused.head == nil && now.Sub(idleSince) >= laneIdle
	switch {
	case p.stopped, tired:
		if b.lanes--; b.lanes == 0 {
			p.pool.drop() // what a busy time needed
		}
		return laneEnds, time.Time{}, true
	case !work, at.After(now):
		l.setWaiting(true)
		return 0, at, false
	case p.doubtful(now): // woken when that is over
		l.setWaiting(true)
		return 0, now.Add(beatEvery), false
	case l.conn == nil:
		b.dialing = true
		return laneDials, time.Time{}, true
	}
	l.take(now)
	return laneSends, time.Time{}, true
}

func (l *lane) setWaiting(waiting bool) {
	switch {
	case waiting && !l.waiting:
		l.b.idle++
	case !waiting && l.waiting:
		l.b.idle--
	}
	l.waiting = waiting
}

// take makes a request of the first batches of the ready partitions. If some are left, another lane looks after them.
func (l *lane) take(now time.Time) {
	p, b := l.p, l.b
	l.items, l.started, l.probed, l.producer = l.items[:0], now, time.Time{}, p.session.identity
	size := 0
	for pt := b.ready.head; pt != nil; pt = b.ready.head {
		if pt.head.plain.size > pt.limit && pt.head.records > 1 && pt.head.attempts == 0 {
			p.splitHead(pt) // it was filled before the broker told its limit
		}
		head := pt.head
		if len(l.items) > 0 && size+head.plain.size > requestBytes {
			break
		}
		size += head.plain.size
		b.unready(pt)
		pt.place, head.taken = flying, true
		if head.attempts == 0 {
			head.sent = now
		} else {
			p.stats.Resent++
		}
		head.attempts++
		l.items = append(l.items, item{partition: pt, batch: head})
	}
	slices.SortFunc(l.items, item.compare)
	b.flying = append(b.flying, l)
	p.stats.Requests++
	if b.ready.head != nil {
		p.signal(b)
	}
}

func (it item) compare(other item) int {
	return cmp.Or(cmp.Compare(it.topic.name, other.topic.name), cmp.Compare(it.id, other.id))
}

func (l *lane) connect(ctx context.Context) {
	p, b := l.p, l.b
	p.mu.Lock()
	addr := b.addr
	p.mu.Unlock()
	conn, err := dial(ctx, &p.cfg, addr, p.cfg.DialTimeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.dialing = false
	if err != nil {
		p.lost(b, err, time.Now())
		return
	}
	l.conn = conn
	p.stats.Connections++
}

func (l *lane) disconnect() {
	if l.conn != nil {
		l.conn.close()
		l.conn = nil
	}
}

// send does one request. An error ends the producer.
func (l *lane) send(ctx context.Context) error {
	if err := l.stamp(); err != nil {
		return err
	}
	l.encode()
	answer, err := l.conn.produce(&l.request, l.p.cfg.RequestTimeout, l.overdue)
	if err != nil {
		l.disconnect()
		if ctx.Err() == nil {
			return l.failed(err)
		}
		return nil
	}
	return l.settle(answer)
}

// stamp finishes the batches that are sent for the first time; they are this lane's alone.
func (l *lane) stamp() error {
	var codec compress.Codec
	if l.p.cfg.Compression != compress.None {
		codec = l.p.cfg.Compression.Codec()
	}
	for i := range l.items {
		it := &l.items[i]
		if !it.batch.stamped {
			if err := it.batch.stamp(l.producer, it.sequence, codec, &l.p.pool); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode lays the batches out as a Produce request.
func (l *lane) encode() {
	l.readers = slices.Grow(l.readers[:0], len(l.items))[:len(l.items)]
	topics := l.request.Topics[:0]
	for i := range l.items {
		it := &l.items[i]
		l.readers[i].rest = it.batch.wire().parts
		if n := len(topics); n == 0 || topics[n-1].Topic != it.topic.name {
			topics = slices.Grow(topics, 1)[:n+1]
			topics[n].Topic, topics[n].Partitions = it.topic.name, topics[n].Partitions[:0]
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, rawproduce.RequestPartition{
			Partition: it.id,
			RecordSet: protocol.RawRecordSet{Reader: &l.readers[i]},
		})
	}
	l.request.Topics = topics
}

// overdue is asked while an answer is late. It gives the connection up when another broker leads one of the partitions
// by now.
func (l *lane) overdue() bool {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range l.items {
		if leader := l.items[i].broker; leader != nil && leader != l.b {
			return true
		}
	}
	if now := time.Now(); now.Sub(l.probed) >= time.Second {
		l.probed = now
		p.cluster.avoid = l.b.addr
		for i := range l.items {
			p.ask(l.items[i].topic, now)
		}
	}
	return p.stopped
}
