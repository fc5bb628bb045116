package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// scan reads the partitions of one topic, each up to our own marker, and collects the uncertain events. It is for one
// goroutine.
type scan struct {
	p      *Producer
	topic  *topic
	who    identity
	resume *Resume

	found     map[lsn.Identity]uint64
	phantoms  phantoms
	outsiders outsiders
	records   int64
	forbidden bool // no right to read

	conn   *conn
	broker *broker
	buf    []byte
}

// markerPatience is how long the own marker may be missing at the end of the log before the fence is repeated: the
// coordinator leaves out a partition that has no leader at that moment, without a word and for good.
const markerPatience = 3 * time.Second

const (
	offsetEarliest       = -2
	codeOffsetOutOfRange = 1
)

// partition reads one partition up to the marker. refence is called when the marker does not come.
func (s *scan) partition(ctx context.Context, id int32, refence func() error) error {
	offset, err := s.start(ctx, id)
	if err != nil {
		return err
	}
	waiting := time.Now()
	for ctx.Err() == nil {
		next, marked, err := s.step(ctx, id, offset)
		if marked && s.resume.ByID {
			s.outsiders.endPartition()
		}
		if err != nil || marked {
			return err
		}
		if next > offset {
			offset, waiting = next, time.Now()
			continue
		}
		if time.Since(waiting) > markerPatience {
			if err := refence(); err != nil {
				return err
			}
			waiting = time.Now()
		}
	}
	return ctx.Err()
}

// start is where the partition may have the first uncertain event. The marker is newer than all of them, so there is an
// offset of that time as soon as the marker shows; reading from the beginning instead is right as well, and slow.
func (s *scan) start(ctx context.Context, id int32) (int64, error) {
	if s.resume.Since.IsZero() {
		return s.offset(ctx, id, offsetEarliest)
	}
	at := s.resume.Since.Add(-scanMargin).UnixMilli()
	if s.resume.ByID {
		at = max(0, time.UnixMicro(s.topic.begins).Add(-outsiderMargin).UnixMilli()) // a negative one is not a time
		s.outsiders.since = at
	}
	for deadline := time.Now().Add(markerPatience); time.Now().Before(deadline); {
		offset, err := s.offset(ctx, id, at)
		if err != nil || offset >= 0 || !sleep(ctx, coordinatorPause) {
			return offset, err
		}
	}
	return s.offset(ctx, id, offsetEarliest)
}

// offset asks for the first offset with a time at or behind the given one (ms), -1 where there is none.
func (s *scan) offset(ctx context.Context, id int32, at int64) (int64, error) {
	for attempt := 0; ; attempt++ {
		offset, err := s.askOffset(ctx, id, at)
		if err == nil || s.forbidden || !s.again(ctx, err, attempt) {
			return offset, err
		}
	}
}

func (s *scan) askOffset(ctx context.Context, id int32, at int64) (int64, error) {
	conn, err := s.leader(ctx, id)
	if err != nil {
		return 0, err
	}
	answer, err := conn.call(&listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
		Topic:      s.topic.name,
		Partitions: []listoffsets.RequestPartition{{Partition: id, CurrentLeaderEpoch: -1, Timestamp: at}},
	}}}, controlTimeout)
	if err != nil {
		s.close()
		return 0, err
	}
	topics := answer.(*listoffsets.Response).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return 0, errFetchAnswer
	}
	told := topics[0].Partitions[0]
	return told.Offset, s.judge(told.ErrorCode)
}

// step reads once. It returns the next offset, and whether the own marker was seen.
func (s *scan) step(ctx context.Context, id int32, offset int64) (next int64, marked bool, err error) {
	for attempt := 0; ; attempt++ {
		next, marked, err = s.read(ctx, id, offset)
		if err == nil || s.forbidden || !s.again(ctx, err, attempt) {
			return next, marked, err
		}
	}
}

func (s *scan) read(ctx context.Context, id int32, offset int64) (next int64, marked bool, err error) {
	conn, err := s.leader(ctx, id)
	if err != nil {
		return offset, false, err
	}
	answer, buf, err := conn.fetch(s.topic.name, id, offset, s.buf)
	s.buf = buf
	if err != nil {
		s.close()
		return offset, false, err
	}
	if answer.code == codeOffsetOutOfRange && answer.logStart > offset { // retention was faster
		return answer.logStart, false, nil
	}
	if err := s.judge(answer.code); err != nil {
		return offset, false, err
	}
	return s.collect(answer.set, offset)
}

// collect takes the uncertain events out of a record set. A batch may begin before the offset that was asked for.
func (s *scan) collect(set []byte, offset int64) (next int64, marked bool, err error) {
	next = offset
	for len(set) > 0 {
		batch, rest, ok, err := nextBatch(set)
		if err != nil || !ok {
			return next, false, err
		}
		set = rest
		switch mine := batch.producer == s.who; {
		case mine && batch.control:
			return batch.last + 1, true, nil
		case mine: // published in this run, before the topic got more partitions
		case batch.control:
			err = s.outsiders.end(&batch)
		default:
			err = batch.each(func(headers []readHeader) error { return s.take(&batch, headers) })
		}
		if err != nil {
			return next, false, err
		}
		next = max(next, batch.last+1)
	}
	return next, false, nil
}

// take looks at the headers of one record.
func (s *scan) take(batch *readBatch, headers []readHeader) error {
	s.records++
	for i := range headers {
		if string(headers[i].name) != router.HeaderPosition {
			continue
		}
		id, err := lsn.ParseIdentity(string(headers[i].value))
		switch {
		case err != nil || !s.resume.unsaved(id): // somebody else's header is nothing to us
			return nil
		case !s.resume.holds(id):
			s.phantoms.add(id)
			return nil
		case len(s.found) >= maxPast:
			return nil
		}
		hash := idHash(nil)
		if len(headers) > 1 {
			hash = idHash(headers[0].value)
		}
		s.found[id] = hash
		return nil
	}
	if s.resume.ByID {
		s.outsiders.take(batch, headers, s.topic.idHeader)
	}
	return nil
}

// leader connects to the partition's leader.
func (s *scan) leader(ctx context.Context, id int32) (*conn, error) {
	p := s.p
	p.mu.Lock()
	pt := s.topic.partitions[id]
	b := pt.broker
	if b == nil {
		p.ask(s.topic, time.Now())
	}
	var addr string
	if b != nil {
		addr = b.addr
	}
	p.mu.Unlock()
	if b == nil {
		return nil, errNoLeader
	}
	if s.conn != nil && (s.broker != b || s.conn.addr != addr || s.conn.stale(time.Now())) {
		s.close()
	}
	if s.conn == nil {
		conn, err := dial(ctx, &p.cfg, addr, p.cfg.DialTimeout)
		if err != nil {
			return nil, err
		}
		s.conn, s.broker = conn, b
	}
	return s.conn, nil
}

// judge makes an error of a broker's code.
func (s *scan) judge(code int16) error {
	if code == codeTopicForbidden {
		s.forbidden = true
	}
	return codeError(code)
}

// scanTries bounds the attempts for one question; the whole look back is tried again then.
const scanTries = 20

// again tells whether an attempt that failed is worth another one, after a pause and with news of the leaders.
func (s *scan) again(ctx context.Context, err error, attempt int) bool {
	if attempt >= scanTries || errors.Is(err, errFetchAnswer) {
		return false
	}
	s.p.mu.Lock()
	s.p.ask(s.topic, time.Now())
	s.p.mu.Unlock()
	return sleep(ctx, backoff(attempt))
}

func (s *scan) close() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}
