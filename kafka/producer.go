package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/router"
)

// Status is the answer of Append.
type Status byte

// The answers of Append. Where nothing was taken, the caller offers the same record again after Notify.
const (
	// Appended: the record is in a batch.
	Appended Status = iota + 1
	// Full: too much is in flight. Nothing was taken.
	Full
	// Pending: the topic or the session is not ready, or the topic or partition is halted. Nothing was taken.
	Pending
	// Suppressed: an earlier producer has put this very event into the topic. Nothing was taken, and nothing is owed.
	Suppressed
)

// String is the answer's name.
func (s Status) String() string {
	switch s {
	case Appended:
		return "appended"
	case Full:
		return "full"
	case Pending:
		return "pending"
	case Suppressed:
		return "suppressed"
	}
	return fmt.Sprintf("status %d", byte(s))
}

// Ack says that N records of the transaction Tx (the caller's number) are in Kafka.
type Ack struct {
	Tx uint64
	N  int32
}

// Producer publishes records. Make one with New; it runs once.
type Producer struct {
	cfg    Config
	log    *zap.Logger
	pool   bufferPool
	events chan struct{}

	renewEvery, pauseLimit time.Duration // see standing.go

	// mu guards all below, and everything that hangs from it.
	mu        sync.Mutex
	startLane func(*lane) // set by Run
	stopped   bool        // before Run, after it, and from the first session error on: nothing is sent

	session  session
	resume   *Resume       // nil once the stream has passed it, unless Branched
	resumed  bool          // the stream has passed it
	phantoms phantoms      // not told by Resumed yet
	resuming chan struct{} // wakes runResume; capacity 1
	cluster  cluster
	topics   map[string]*topic
	latest   *topic // of the last Append

	held    bool // records were appended since Send
	records int  // in flight
	bytes   int  // in flight
	acked   []Ack
	spare   *batch // free list
	stats   Stats
}

// New makes a producer. It does nothing until Run. A nil logger logs nothing.
func New(cfg Config, log *zap.Logger) *Producer {
	if log == nil {
		log = zap.NewNop()
	}
	cfg = cfg.withDefaults()
	return &Producer{
		cfg:     cfg,
		log:     log,
		pool:    bufferPool{keep: 2 * cfg.MaxInFlightBytes},
		events:  make(chan struct{}, 1),
		stopped: true,
		cluster: newCluster(),

		renewEvery: renewEvery,
		pauseLimit: pauseLimit,
		topics:     map[string]*topic{},

		resume:   cfg.Resume,
		resuming: make(chan struct{}, 1),
	}
}

// Run does the work until ctx ends, then returns nil; what is in flight then stays unacknowledged. It returns an error
// when the producer cannot go on: a *SessionError, or the problems of the configuration. Brokers that cannot be reached
// are no error, also at the start.
func (p *Producer) Run(ctx context.Context) error {
	if err := p.cfg.Validate(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	p.mu.Lock()
	p.stopped = false
	p.startLane = func(l *lane) { group.Go(func() error { return l.run(ctx) }) }
	p.mu.Unlock()
	group.Go(func() error { return p.runMetadata(ctx) })
	group.Go(func() error { return p.runSession(ctx) })
	if p.cfg.Resume != nil {
		group.Go(func() error { return p.runResume(ctx) })
	}
	group.Go(func() error { // lanes are started by Append too, so none may start when the others have ended
		<-ctx.Done()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stopped = true
		return nil
	})
	return group.Wait()
}

// Append takes a record of the transaction tx, to be sent at the next Send. It copies the record and never waits for the
// network. An error is a *PoisonError. It is for one goroutine.
func (p *Producer) Append(m *router.Message, tx uint64) (Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.latest
	if t == nil || t.name != m.Topic {
		var poison *PoisonError
		if t, poison = p.lookUp(m.Topic); poison != nil {
			return 0, poison
		}
		t.introduce(m)
		p.latest = t
	}
	payload := payloadSize(m)
	if payload+maxRecordOverhead > p.cfg.MaxRecordBytes {
		return 0, &PoisonError{Reason: ReasonRecordBytes, Topic: t.name,
			Detail: fmt.Sprintf("%d bytes of at most %d", payload+maxRecordOverhead, p.cfg.MaxRecordBytes)}
	}
	if !t.open || p.stopped {
		return Pending, nil
	}
	if t.past != nil && p.resume.holds(m.Identity) && t.suppress(m) {
		p.stats.Suppressed++
		return Suppressed, nil
	}
	pt, poison := t.choose(m)
	if poison != nil {
		return 0, poison
	}
	if pt.halt != nil {
		return Pending, nil
	}
	if p.records > 0 && (p.records >= p.cfg.MaxInFlightRecords || p.bytes+payload+maxRecordOverhead > p.cfg.MaxInFlightBytes) {
		return Full, nil
	}
	p.held = true
	p.add(pt, m, payload, tx)
	return Appended, nil
}

// Send lets the lanes take what was appended. Until then they start nothing for less than spreadBytes: a lane that took
// the first record of a burst would leave the others to the next request, and small requests cost the brokers most.
// So the caller calls it whenever it has nothing more to append at once.
func (p *Producer) Send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		return
	}
	p.held = false
	p.signalReady()
}

// signalReady sees to it that lanes look at what is ready.
func (p *Producer) signalReady() {
	for _, b := range p.cluster.brokers {
		if b.ready.head != nil {
			p.signal(b)
		}
	}
}

// lookUp finds a topic, and begins to use it the first time.
func (p *Producer) lookUp(name string) (*topic, *PoisonError) {
	if t := p.topics[name]; t != nil {
		return t, nil
	}
	if !LegalTopicName(name) {
		return nil, &PoisonError{Reason: ReasonTopicName, Topic: name,
			Detail: "want 1 to 249 letters, digits, dots, underscores and hyphens, and not . or .."}
	}
	t := &topic{name: strings.Clone(name)}
	p.topics[t.name] = t
	p.ask(t, time.Now())
	return t, nil
}

// add puts a record into the partition's open batch.
func (p *Producer) add(pt *partition, m *router.Message, payload int, tx uint64) {
	b, size := pt.open(payload, m.Time)
	if b == nil {
		b = p.newBatch(pt.hint)
		b.created = time.Now()
		pt.push(b)
		size = b.sizeWith(payload, m.Time)
	}
	b.append(m, payload, size, tx, &p.pool)
	pt.topic.records++
	p.records++
	p.bytes += size
	switch {
	case pt.place == idle:
		p.schedule(pt, b.created)
	case pt.place == ready && pt.head == b:
		p.moreReady(pt, size)
	}
}

// moreReady counts bytes that a ready partition's first batch has grown by.
func (p *Producer) moreReady(pt *partition, size int) {
	b := pt.broker
	before := b.readyBytes
	pt.counted += size
	b.readyBytes += size
	if before < spreadBytes && b.readyBytes >= spreadBytes {
		p.signal(b)
	}
}

// newBatch makes an empty batch. hint is the size of the partition's last batch.
func (p *Producer) newBatch(hint int) *batch {
	b := p.spare
	if b == nil {
		b = &batch{}
	} else {
		p.spare, b.next = b.next, nil
	}
	b.plain.begin(&p.pool, hint)
	b.plain.set(b.plain.reserve(&p.pool, batchOverhead)[:batchOverhead])
	return b
}

// release takes back the memory of a batch.
func (p *Producer) release(b *batch) {
	b.plain.release(&p.pool)
	b.packed.release(&p.pool)
	*b = batch{plain: b.plain, packed: b.packed, runs: b.runs[:0], next: p.spare}
	p.spare = b
}

// Acked appends to dst what was acknowledged since the last call, in order per partition.
func (p *Producer) Acked(dst []Ack) []Ack {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = append(dst, p.acked...)
	p.acked = p.acked[:0]
	return dst
}

// Notify tells that something changed: acknowledgements, space, a topic, trouble. One event stands for any number.
func (p *Producer) Notify() <-chan struct{} { return p.events }

// Wait lets go what was appended and waits until something changed, for a second at most. Acknowledgements are not kept: it
// is for callers who go by Flushed, and who ask for Trouble before.
func (p *Producer) Wait(ctx context.Context) error {
	p.Send()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.Notify():
	case <-timer.C:
	}
	p.Acked(nil)
	return nil
}

func (p *Producer) notify() {
	select {
	case p.events <- struct{}{}:
	default:
	}
}

// Flushed tells whether everything that was appended is acknowledged.
func (p *Producer) Flushed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records == 0
}

// ClusterID is the cluster's id as its metadata tells it, empty before the first answer.
func (p *Producer) ClusterID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cluster.id
}

var errNoLeader = errors.New("the partition has no leader")
