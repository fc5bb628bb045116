package kafka

import (
	"time"

	"github.com/walrelay/walrelay/lsn"
)

// place is where a partition stands between Append and the lanes.
type place byte

const (
	idle       place = iota // nothing to send
	ready                   // in its broker's ready list
	paused                  // in its broker's paused list, until pauseUntil
	leaderless              // has records and no leader
	flying                  // its first batch belongs to a lane
)

// partition is the queue of one partition: batches in the order of Append. Only the first may be on the wire, and the
// last takes more records until a lane has taken it. Guarded by Producer.mu.
type partition struct {
	topic *topic
	id    int32

	head, tail *batch
	sequence   int32 // of the first batch
	limit      int   // most bytes of a batch; lower than Config.BatchBytes once the broker refused that
	hint       int   // size of the last batch

	leader      int32 // broker id of the leader, -1 where there is none
	leaderEpoch int32
	broker      *broker // the leader; nil where it is not known

	place      place
	prev, next *partition // in the broker's list
	counted    int        // bytes of the first batch that the broker's readyBytes counts
	pauseUntil time.Time
	failures   int // answers in a row that were no acknowledgement
	failing    failure
	halt       *halt // the first batch is a record that the broker refuses
}

// failure is since when something does not work and what was seen last. The zero failure: it works.
type failure struct {
	since time.Time
	err   error
}

func (f *failure) note(now time.Time, err error) {
	if f.err == nil {
		f.since = now
	}
	f.err = err
}

// halt is a failure that waits for a person.
type halt struct {
	failure
	kind Kind
	code int16
	size int // bytes of the refused record
	// event is the identity of the refused record, zero where it has none, and tx the caller's number.
	event lsn.Identity
	tx    uint64
}

func newPartition(t *topic, id int32, limit int) *partition {
	return &partition{topic: t, id: id, limit: limit, leader: -1, leaderEpoch: -1}
}

func (pt *partition) push(b *batch) {
	if pt.tail == nil {
		pt.head = b
	} else {
		pt.tail.next = b
	}
	pt.tail = b
}

func (pt *partition) pop() *batch {
	b := pt.head
	pt.head = b.next
	if pt.head == nil {
		pt.tail = nil
	}
	b.next = nil
	return b
}

// replaceHead puts two batches where the first one was.
func (pt *partition) replaceHead(left, right *batch) {
	b := pt.head
	left.next, right.next = right, b.next
	pt.head = left
	if pt.tail == b {
		pt.tail = right
	}
	b.next = nil
}

// open is the batch that takes a record of this payload, and the record's size in it. It is nil where a new one is needed.
func (pt *partition) open(payload int, timestamp int64) (b *batch, size int) {
	b = pt.tail
	if b == nil || b.taken {
		return nil, 0
	}
	if size = b.sizeWith(payload, timestamp); b.plain.size+size > pt.limit {
		return nil, 0
	}
	return b, size
}

// accepts tells whether a keyless record may go on here without starting a batch.
func (pt *partition) accepts() bool { return pt.tail != nil && !pt.tail.taken && pt.halt == nil }

// partitionList is a list of partitions of which each is in one list at most.
type partitionList struct{ head, tail *partition }

func (l *partitionList) push(pt *partition) {
	pt.prev, pt.next = l.tail, nil
	if l.tail == nil {
		l.head = pt
	} else {
		l.tail.next = pt
	}
	l.tail = pt
}

func (l *partitionList) remove(pt *partition) {
	if pt.prev == nil {
		l.head = pt.next
	} else {
		pt.prev.next = pt.next
	}
	if pt.next == nil {
		l.tail = pt.prev
	} else {
		pt.next.prev = pt.prev
	}
	pt.prev, pt.next = nil, nil
}
