package router

import (
	"bytes"
	"slices"

	"github.com/walrelay/walrelay/lsn"
)

// Header is one Kafka record header. Names may repeat; order is kept.
type Header struct {
	Name  string
	Value []byte // nil = null header value
}

// Message is one record for Kafka. The caller reuses it for every row: its slices point into the row's
// frame or into the message's own scratch buffer, so they are valid until the next Route or Reset, and
// no longer than the frame. A zero Message is ready for use.
type Message struct {
	Topic   string
	Key     []byte // nil = null key
	Value   []byte // nil = null value (a tombstone on a compacted topic)
	Headers []Header
	// Partition is the explicit partition, or -1 where the key decides (murmur2, as the Java producer).
	Partition int32
	// Time is the record timestamp in ms since 1970.
	Time int64
	// Identity is the event's, whether or not a header carries it.
	Identity lsn.Identity
	// TimeReplaced tells that the timestamp column lay outside Route.Bounds and Time is the commit time.
	TimeReplaced bool
	// Partial tells that the error of Route has left something of the message out.
	Partial bool
	// Late tells that Time is Bounds.Now, since the commit is long ago.
	Late bool

	scratch []byte // rendered key, value and header values, one behind the other
}

// Reset empties the message and keeps its buffers.
func (m *Message) Reset() {
	*m = Message{Headers: m.Headers[:0], Partition: -1, scratch: m.scratch[:0]}
}

// rendered is what was appended to the scratch buffer since start. Its capacity is cut, so that a caller who
// appends to it cannot write into the next value.
func (m *Message) rendered(start int) []byte {
	return m.scratch[start:len(m.scratch):len(m.scratch)]
}

func (m *Message) header(name string, value []byte) {
	m.Headers = append(m.Headers, Header{Name: name, Value: value})
}

// Clone is a copy that owns its bytes.
func (m *Message) Clone() Message {
	c := *m
	c.Key, c.Value, c.scratch = bytes.Clone(m.Key), bytes.Clone(m.Value), nil
	c.Headers = slices.Clone(m.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}
