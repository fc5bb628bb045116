package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/fault"
)

// LogReader reads what stands in topics, whoever wrote it and whether it was committed or not. It remembers how far it has
// come in each partition. One goroutine uses it. It asks for no topic to be created.
type LogReader struct {
	// Progress is told, now and then, how many offsets of the Read under way are behind it and how many there are. May be
	// nil.
	Progress func(read, total int64)

	cfg     Config
	log     *zap.Logger
	any     client
	brokers map[int32]string // addresses
	cluster string
	topics  map[string][]*logPartition
	control *coordinator // nil before Fence
	who     identity
	conn    *conn // to the leader last asked
	buf     []byte
}

// logPartition is one partition and how far it was read.
type logPartition struct {
	topic  string
	id     int32
	leader string // address; empty: none
	known  bool   // first and next are set
	first  int64  // where the first Read began
	next   int64
	end    int64 // read up to here: the high watermark, as last told
	limit  int64 // what is here or behind it is not handed over; 0: no limit
	marker bool  // our marker is in the log, or about to be, and was not seen yet
}

// NewLogReader makes a reader; it does no I/O. Of the configuration it uses what is about connections, and in Fence the
// transactional id.
func NewLogReader(cfg Config, log *zap.Logger) *LogReader {
	if log == nil {
		log = zap.NewNop()
	}
	r := &LogReader{cfg: cfg.withDefaults(), log: log, brokers: map[int32]string{}, topics: map[string][]*logPartition{}}
	r.any.cfg = &r.cfg
	return r
}

// Close closes the connections.
func (r *LogReader) Close() {
	r.any.close()
	r.hangUp()
	if r.control != nil {
		r.control.close()
	}
}

// ForbiddenError says that there is no right to read a topic.
type ForbiddenError struct{ Topic string }

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("no right to read topic %s (Read and Describe)", e.Topic)
}

// FaultCode is the kind of the error.
func (e *ForbiddenError) FaultCode() fault.Code { return fault.KafkaRead }

// ClusterID asks for the id of the cluster.
func (r *LogReader) ClusterID(ctx context.Context) (string, error) {
	if r.cluster == "" {
		if err := r.learn(ctx, nil); err != nil {
			return "", err
		}
	}
	return r.cluster, nil
}

// Read hands over the records of the topics, partition by partition in order of offset: from the first one with a time at
// or behind since (zero: from the beginning) up to the high watermark as it is at the call, and after Fence at least up to
// our own marker. Where a topic was read before, it goes on behind that instead. A topic that does not exist is empty. An
// error of take ends it and is returned.
func (r *LogReader) Read(ctx context.Context, topics []string, since time.Time, take func(*Record) error) error {
	var parts []*logPartition
	for _, name := range topics {
		if err := r.learn(ctx, []string{name}); err != nil {
			return err
		}
		for _, p := range r.topics[name] {
			if err := r.locate(ctx, p, since); err != nil {
				return err
			}
			parts = append(parts, p)
		}
	}
	return r.drain(ctx, parts, take)
}

// ReadEarlier hands over the records in front of those that Read began with.
func (r *LogReader) ReadEarlier(ctx context.Context, topics []string, take func(*Record) error) error {
	var parts []*logPartition
	for _, name := range topics {
		for _, p := range r.topics[name] {
			first, err := r.offset(ctx, p, offsetEarliest)
			if err != nil {
				return err
			}
			parts = append(parts, &logPartition{topic: p.topic, id: p.id, leader: p.leader, next: first, end: p.first, limit: max(p.first, 1)})
		}
	}
	return r.drain(ctx, parts, take)
}

// drain reads each partition to its end.
func (r *LogReader) drain(ctx context.Context, parts []*logPartition, take func(*Record) error) error {
	done := r.measure(parts)
	for _, p := range parts {
		for idle := newPatience(); p.next < p.end || p.marker; {
			before := p.next
			if err := r.step(ctx, p, take); err != nil {
				return err
			}
			done(p.next - before)
			if !idle.moved(p.next > before) {
				continue
			}
			if err := r.unstick(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure gives a function that counts the offsets that were read and tells Progress.
func (r *LogReader) measure(parts []*logPartition) func(int64) {
	var read, total int64
	for _, p := range parts {
		total += max(0, p.end-p.next)
	}
	return func(n int64) {
		read += n
		if r.Progress != nil {
			r.Progress(read, max(total, read))
		}
	}
}

// learnTries bounds the attempts to reach any broker at all: the caller should hear of that soon.
const learnTries = 5

// learn asks for the partitions of topics and their leaders.
func (r *LogReader) learn(ctx context.Context, names []string) error {
	request := &metadata.Request{TopicNames: append([]string{}, names...)} // nil would mean all
	for attempt := 0; ; attempt++ {
		answer, err := r.any.call(ctx, r.cfg.Brokers, request)
		if err == nil {
			err = r.take(answer.(*metadata.Response))
		}
		if err == nil || attempt == learnTries || !r.again(ctx, err, attempt) {
			return wrapLog("ask for topics", err)
		}
	}
}

func (r *LogReader) take(answer *metadata.Response) error {
	r.cluster = answer.ClusterID
	for _, b := range answer.Brokers {
		r.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range answer.Topics {
		switch t.ErrorCode {
		case codeNone:
		case codeUnknownTopic:
			delete(r.topics, t.Name)
			continue
		case codeTopicForbidden:
			return &ForbiddenError{t.Name}
		default:
			return fmt.Errorf("topic %s: %w", t.Name, brokerError{code: t.ErrorCode})
		}
		known := r.topics[t.Name]
		for len(known) < len(t.Partitions) {
			known = append(known, &logPartition{topic: t.Name, id: int32(len(known))})
		}
		for _, p := range t.Partitions {
			if p.PartitionIndex < 0 || int(p.PartitionIndex) >= len(known) {
				return fmt.Errorf("topic %s: not all partitions are known yet", t.Name)
			}
			known[p.PartitionIndex].leader = r.brokers[p.LeaderID]
		}
		r.topics[t.Name] = known
	}
	return nil
}

// locate finds the offsets between which to read. The end is asked for first: what comes later is behind it.
func (r *LogReader) locate(ctx context.Context, p *logPartition, since time.Time) (err error) {
	if p.end, err = r.offset(ctx, p, offsetLatest); err != nil || p.known {
		return err
	}
	at := int64(offsetEarliest)
	if !since.IsZero() {
		at = since.UnixMilli()
	}
	if p.next, err = r.offset(ctx, p, at); err != nil {
		return err
	}
	if p.next < 0 { // nothing is so young
		p.next = p.end
	}
	p.first, p.known = p.next, true
	return nil
}

const offsetLatest = -1

// offset asks for the first offset with a time at or behind at (ms), -1 where there is none, or for one of the special ones.
func (r *LogReader) offset(ctx context.Context, p *logPartition, at int64) (offset int64, err error) {
	err = r.ask(ctx, p, func(c *conn) error {
		answer, err := c.call(&listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
			Topic:      p.topic,
			Partitions: []listoffsets.RequestPartition{{Partition: p.id, CurrentLeaderEpoch: -1, Timestamp: at}},
		}}}, controlTimeout)
		if err != nil {
			return err
		}
		topics := answer.(*listoffsets.Response).Topics
		if len(topics) != 1 || len(topics[0].Partitions) != 1 {
			return errFetchAnswer
		}
		offset = topics[0].Partitions[0].Offset
		return codeError(topics[0].Partitions[0].ErrorCode)
	})
	return offset, err
}

// step reads once.
func (r *LogReader) step(ctx context.Context, p *logPartition, take func(*Record) error) error {
	var answer fetched
	err := r.ask(ctx, p, func(c *conn) (err error) {
		answer, r.buf, err = c.fetch(p.topic, p.id, p.next, r.buf)
		if err == nil && (answer.code != codeOffsetOutOfRange || answer.logStart <= p.next) {
			err = codeError(answer.code)
		}
		return err
	})
	if err != nil {
		return err
	}
	if answer.code == codeOffsetOutOfRange { // retention was faster
		p.next = answer.logStart
		return nil
	}
	for set := answer.set; len(set) > 0; {
		batch, rest, ok, err := nextBatch(set)
		if err != nil || !ok {
			return err
		}
		timed := clock(batch, set[:len(set)-len(rest)])
		set = rest
		if batch.control {
			p.marker = p.marker && batch.producer != r.who
		} else if err := timed.records(p.handing(take)); err != nil {
			return err
		}
		p.next = max(p.next, batch.last+1)
	}
	return nil
}

// handing completes a record and hands it over, unless it lies outside of what is wanted: batches come whole.
func (p *logPartition) handing(take func(*Record) error) func(*Record) error {
	from := p.next
	return func(record *Record) error {
		if record.Offset < from || p.limit > 0 && record.Offset >= p.limit {
			return nil
		}
		record.Topic, record.Partition = p.topic, p.id
		return take(record)
	}
}

// ask puts a question to the partition's leader, and again after a pause when it cannot be answered now.
func (r *LogReader) ask(ctx context.Context, p *logPartition, question func(*conn) error) error {
	for attempt := 0; ; attempt++ {
		err := r.dial(ctx, p.leader)
		if err == nil {
			err = question(r.conn)
		}
		if err == nil {
			return nil
		}
		if isCode(err, codeTopicForbidden) {
			return &ForbiddenError{p.topic}
		}
		r.hangUp()
		if !r.again(ctx, err, attempt) {
			return wrapLog(fmt.Sprintf("read topic %s partition %d", p.topic, p.id), err)
		}
		if err := r.learn(ctx, []string{p.topic}); err != nil {
			return err
		}
		if current := r.topics[p.topic]; int(p.id) < len(current) {
			p.leader = current[p.id].leader
		}
	}
}

// again pauses before the next attempt, and tells whether there is to be one.
func (r *LogReader) again(ctx context.Context, err error, attempt int) bool {
	var forbidden *ForbiddenError
	if attempt >= scanTries || errors.As(err, &forbidden) {
		return false
	}
	return sleep(ctx, backoff(attempt))
}

func (r *LogReader) dial(ctx context.Context, leader string) error {
	if leader == "" {
		return errNoLeader
	}
	if r.conn != nil && (r.conn.addr != leader || r.conn.stale(time.Now())) {
		r.hangUp()
	}
	if r.conn != nil {
		return nil
	}
	conn, err := dial(ctx, &r.cfg, leader, r.cfg.DialTimeout)
	if err != nil {
		return err
	}
	r.conn = conn
	return nil
}

func (r *LogReader) hangUp() {
	if r.conn != nil {
		r.conn.close()
		r.conn = nil
	}
}

func wrapLog(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("kafka: %s: %w", what, err)
}
