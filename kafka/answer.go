package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/produce"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/lsn"
)

// damagedRetries is how often a batch that the broker calls corrupt is sent again before it counts as refused.
const damagedRetries = 3

var errUnanswered = errors.New("the broker's answer leaves the partition out")

// forgetting is half of how long brokers remember a producer, which they count by the time of its records
// (producer.id.expiration.ms, a day).
const forgetting = 12 * time.Hour

// unknowable is the error for a batch that may be in the log and whose records are so old that the leader may have
// forgotten it. A leader without memory takes a batch that comes again for a new one, so the next session looks into the
// log instead. Nil where a retry is right; also where nothing could look, for lack of the transactional id or of positions
// in the records.
func (p *Producer) unknowable(pt *partition, now time.Time) error {
	b := pt.head
	if !b.uncertain || p.session.plain || b.max >= now.Add(-forgetting).UnixMilli() || b.firstRecord().Identity == (lsn.Identity{}) {
		return nil
	}
	return &SessionError{Topic: pt.topic.name, Partition: pt.id,
		Reason: "a batch of old records was sent without an answer, and the broker may have forgotten it"}
}

// failed puts the batches of a request without answer back. They may have been appended: they are sent again as they
// are, and the sequence tells the broker. The error is a *SessionError.
func (l *lane) failed(err error) error {
	p, now := l.p, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	l.land()
	p.lost(l.b, err, now)
	p.stats.Retries.Connection += uint64(len(l.items))
	var over error
	for i := range l.items {
		pt := l.items[i].partition
		pt.failing.note(now, err)
		pt.head.uncertain = true
		if over = cmp.Or(over, p.unknowable(pt, now)); over == nil {
			pt.place = idle
			p.schedule(pt, now)
		}
	}
	p.stopped = p.stopped || over != nil
	return over
}

// land takes the lane from the list of those with a request under way.
func (l *lane) land() {
	l.b.flying = slices.DeleteFunc(l.b.flying, func(other *lane) bool { return other == l })
}

// settle takes in an answer. The error is a *SessionError.
func (l *lane) settle(answer *produce.Response) error {
	err := l.apply(answer, time.Now())
	if l.p.cfg.OnBatch != nil {
		for _, ack := range l.acks {
			l.p.cfg.OnBatch(ack)
		}
	}
	return err
}

func (l *lane) apply(answer *produce.Response, now time.Time) error {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.land()
	p.regained(l.b)
	p.stats.ThrottleMillis += uint64(max(answer.ThrottleTimeMs, 0))
	l.acks = l.acks[:0]
	var over error
	for i := range answer.Topics {
		name := answer.Topics[i].Topic
		for j := range answer.Topics[i].Partitions {
			result := &answer.Topics[i].Partitions[j]
			it := l.find(name, result.Partition)
			if it == nil || it.answered {
				continue
			}
			it.answered = true
			over = cmp.Or(over, l.result(it, result, now))
		}
	}
	for i := range l.items {
		if it := &l.items[i]; !it.answered {
			it.batch.uncertain = true
			if over = cmp.Or(over, p.unknowable(it.partition, now)); over == nil {
				p.retry(it.partition, errUnanswered, now)
			}
		}
	}
	if over != nil {
		p.stopped = true
	}
	p.notify()
	return over
}

// find is the item of a partition, nil where the request had none.
func (l *lane) find(topic string, partition int32) *item {
	at, ok := slices.BinarySearchFunc(l.items, partition, func(it item, partition int32) int {
		return cmp.Or(cmp.Compare(it.topic.name, topic), cmp.Compare(it.id, partition))
	})
	if !ok {
		return nil
	}
	return &l.items[at]
}

// result does what the answer for one partition asks for. After a *SessionError the partition stays with the lane, so
// that nothing of it goes out any more.
func (l *lane) result(it *item, result *produce.ResponsePartition, now time.Time) error {
	p, pt := l.p, it.partition
	err := brokerError{result.ErrorCode, result.ErrorMessage}
	v := judge(result.ErrorCode)
	if v != damaged {
		it.batch.damaged = 0
	}
	it.batch.uncertain = it.batch.uncertain || !notAppended(result.ErrorCode)
	if v == wait || v == moved || v == damaged {
		if err := p.unknowable(pt, now); err != nil {
			return err
		}
	}
	switch v {
	case done:
		l.acknowledge(it, now)
	case wait:
		p.stats.Retries.count(result.ErrorCode)
		p.retry(pt, err, now)
	case moved:
		p.stats.Retries.count(result.ErrorCode)
		p.ask(pt.topic, now)
		p.retry(pt, err, now)
	case damaged:
		if it.batch.damaged++; it.batch.damaged <= damagedRetries || it.batch.uncertain {
			p.stats.Retries.count(result.ErrorCode)
			p.retry(pt, err, now)
			break
		}
		return p.refuse(pt, v, err, now)
	case tooLarge, refused:
		return p.refuse(pt, v, err, now)
	case forbidden:
		p.haltHead(pt, KindTopicForbidden, err, now)
	default:
		return &SessionError{Topic: pt.topic.name, Partition: pt.id, Code: result.ErrorCode, Reason: result.ErrorMessage}
	}
	return nil
}

// retry sends the first batch again, as it is, after a pause.
func (p *Producer) retry(pt *partition, err error, now time.Time) {
	pt.failing.note(now, err)
	pt.pauseUntil = now.Add(backoff(pt.failures))
	pt.failures++
	pt.place = idle
	p.schedule(pt, now)
}

// refuse splits a batch that was refused for its content until the record is alone that it is about. That one halts the
// partition. The broker used no sequence for what it refused. A batch that an earlier attempt may have put into the log
// (the topic's limit was lowered since) must not change: its halves would not be known for what they are.
func (p *Producer) refuse(pt *partition, v verdict, err brokerError, now time.Time) error {
	if pt.head.records > 1 && pt.head.uncertain {
		return &SessionError{Topic: pt.topic.name, Partition: pt.id, Code: err.code,
			Reason: "refused after an attempt whose fate is unknown"}
	}
	if pt.head.records == 1 {
		kind := KindRecordRefused
		if v == tooLarge {
			kind = KindRecordTooLarge
		}
		p.haltHead(pt, kind, err, now)
		return nil
	}
	if v == tooLarge {
		pt.limit = min(pt.limit, max(pt.head.plain.size/2, 1<<10)) // or every batch is sent twice
	}
	p.splitHead(pt)
	pt.place = idle
	p.schedule(pt, now)
	return nil
}

// splitHead puts two batches where the first was.
func (p *Producer) splitHead(pt *partition) {
	b := pt.head
	left, right := p.newBatch(b.plain.size/2), p.newBatch(b.plain.size/2)
	b.split(left, right, &p.pool)
	left.taken, right.taken = true, true
	pt.replaceHead(left, right)
	p.bytes += left.size() + right.size() - b.size()
	p.release(b)
	p.stats.Splits++
}

// haltHead holds a partition because of its first batch. It is tried again now and then: a limit may have been raised,
// a right granted.
func (p *Producer) haltHead(pt *partition, kind Kind, err brokerError, now time.Time) {
	if pt.halt == nil {
		pt.halt = &halt{}
		p.log.Error("partition halted", zap.String("topic", pt.topic.name), zap.Int32("partition", pt.id), zap.Error(err))
		p.notify()
	}
	pt.halt.kind, pt.halt.code, pt.halt.size = kind, err.code, pt.head.size()
	if pt.halt.event == (lsn.Identity{}) && pt.head.records == 1 {
		pt.halt.event, pt.halt.tx = pt.head.firstRecord().Identity, pt.head.runs[0].Tx
	}
	pt.halt.note(now, err)
	pt.pauseUntil = now.Add(p.cfg.HaltRetry)
	pt.place = idle
	p.schedule(pt, now)
}

// acknowledge ends a batch that is in the log.
func (l *lane) acknowledge(it *item, now time.Time) {
	p, pt, b := l.p, it.partition, it.batch
	pt.pop()
	pt.sequence = nextSequence(pt.sequence, b.records)
	pt.hint = b.plain.size
	pt.failures, pt.failing, pt.pauseUntil = 0, failure{}, time.Time{}
	if pt.halt != nil {
		p.log.Info("partition goes on", zap.String("topic", pt.topic.name), zap.Int32("partition", pt.id),
			zap.Duration("halted", now.Sub(pt.halt.since)))
		pt.halt = nil
	}
	pt.topic.records -= int(b.records)
	p.records -= int(b.records)
	p.bytes -= b.size()
	p.acked = append(p.acked, b.runs...)
	p.stats.Batches++
	p.stats.Records += uint64(b.records)
	p.stats.Bytes += uint64(b.wire().size)
	if p.cfg.OnBatch != nil {
		l.acks = append(l.acks, BatchAck{
			Topic: pt.topic.name, Partition: pt.id, Records: int(b.records), Bytes: b.wire().size,
			Queue: b.sent.Sub(b.created), Produce: now.Sub(b.sent), Oldest: b.oldest,
		})
	}
	p.release(b)
	pt.place = idle
	p.schedule(pt, now)
	p.finishGrowth(pt.topic)
}

// count takes note of an error code that leads to another attempt.
func (r *Retries) count(code int16) {
	switch code {
	case 7:
		r.Timeout++
	case 19, 20:
		r.Replicas++
	case 2, 89:
		r.Other++
	default:
		r.Leader++
	}
}

// BatchAck tells of an acknowledged batch.
type BatchAck struct {
	Topic     string
	Partition int32
	Records   int
	// Bytes on the wire, compressed.
	Bytes int
	// Queue is how long the first record waited to be sent.
	Queue time.Duration
	// Produce is the time from the first attempt to the acknowledgement.
	Produce time.Duration
	// Oldest is the smallest record timestamp, ms since 1970.
	Oldest int64
}

// String is for logs and tests.
func (a BatchAck) String() string {
	return fmt.Sprintf("%s/%d: %d records, %d bytes", a.Topic, a.Partition, a.Records, a.Bytes)
}
