package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	fetchVersion = 11
	fetchBytes   = 1 << 20
	fetchWait    = 500 * time.Millisecond
	// maxFetchAnswer bounds an answer: the broker sends one batch even when it is larger than asked for.
	maxFetchAnswer = 256 << 20
)

// fetched is the answer for one partition. set is valid until the next fetch with the same buffer.
type fetched struct {
	code          int16
	highWatermark int64
	logStart      int64
	set           []byte
}

// fetch reads record batches of one partition from an offset on. The codecs of kafka-go drop the last offset of a
// batch, without which a batch that compaction has emptied cannot be stepped over; so the answer is decoded here.
func (c *conn) fetch(topic string, partition int32, offset int64, buf []byte) (fetched, []byte, error) {
	request := &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(fetchWait.Milliseconds()), MinBytes: 1, MaxBytes: fetchBytes, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: topic, Partitions: []fetch.RequestPartition{{
			Partition: partition, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: fetchBytes,
		}}}},
	}
	c.socket.deadline = time.Now().Add(fetchWait + controlTimeout)
	c.correlation++
	if err := protocol.WriteRequest(c.wire, fetchVersion, c.correlation, c.clientID, request); err != nil {
		return fetched{}, buf, fmt.Errorf("fetch from %s: %w", c.addr, err)
	}
	buf, err := c.readFrame(buf)
	if err != nil {
		return fetched{}, buf, fmt.Errorf("fetch from %s: %w", c.addr, err)
	}
	answer, err := decodeFetch(buf)
	if err != nil {
		return fetched{}, buf, fmt.Errorf("fetch from %s: %w", c.addr, err)
	}
	return answer, buf, nil
}

// readFrame reads one whole answer behind its correlation id.
func (c *conn) readFrame(buf []byte) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.wire, head[:]); err != nil {
		return buf, err
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 4
	if correlation := int32(binary.BigEndian.Uint32(head[4:])); correlation != c.correlation {
		return buf, fmt.Errorf("answer %d to request %d", correlation, c.correlation)
	}
	if size < 0 || size > maxFetchAnswer {
		return buf, fmt.Errorf("answer of %d bytes", size)
	}
	if size > cap(buf) {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(c.wire, buf)
	return buf, err
}

var errFetchAnswer = errors.New("the answer is cut or malformed")

// decodeFetch reads a Fetch response of version 11 with one topic and one partition.
func decodeFetch(b []byte) (fetched, error) {
	r := reader{b: b}
	r.skip(4) // throttle time
	code := r.int16()
	r.skip(4) // session id
	if code != codeNone {
		return fetched{code: code}, r.err()
	}
	if r.int32() != 1 {
		return fetched{}, errFetchAnswer
	}
	r.skip(int(r.int16())) // topic
	if r.int32() != 1 {
		return fetched{}, errFetchAnswer
	}
	r.skip(4) // partition
	var f fetched
	f.code = r.int16()
	f.highWatermark = r.int64()
	r.skip(8) // last stable offset
	f.logStart = r.int64()
	r.skip(16 * max(0, int(r.int32()))) // aborted transactions
	r.skip(4)                           // preferred read replica
	if size := int(r.int32()); size > 0 {
		f.set = r.take(size)
	}
	return f, r.err()
}

// reader takes fixed-size numbers from bytes; once something was missing it only gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) skip(n int) { r.take(n) }

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// field is a length and so many bytes; nil for a null.
func (r *reader) field() []byte {
	n := r.varint()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

func (r *reader) err() error {
	if r.bad {
		return errFetchAnswer
	}
	return nil
}
