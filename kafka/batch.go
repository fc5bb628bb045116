package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"github.com/walrelay/walrelay/router"
)

// Layout of a batch on the wire: the size that a Produce request puts in front of a record set, the header of a record
// batch of format 2 (Kafka documentation, "Record Batch"), and the records.
const (
	setPrefixSize = 4
	batchOverhead = setPrefixSize + 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch of one partition. Append writes it under the producer's lock. From the moment a lane has
// taken it, its bytes and borders never change, and it belongs to that lane until its answer.
type batch struct {
	next *batch // behind this one in the partition's queue, or in the free list

	plain   chunks // batchOverhead reserved bytes, then the encoded records, of which none is cut
	packed  chunks // the same with the records compressed; empty where they are not
	stamped bool   // the header is there
	taken   bool   // by a lane: no more records
	records int32
	first   int64 // timestamp of the first record, which the others' deltas refer to
	max     int64 // largest timestamp
	oldest  int64 // smallest timestamp
	runs    []Ack // which transactions the records belong to

	sequence  int32
	attempts  int
	damaged   int       // attempts in a row that the broker called corrupt
	uncertain bool      // it may be in the log: no answer came, or one that does not tell
	created   time.Time // when the first record was appended
	sent      time.Time // when it was sent for the first time
}

// size is the size of the encoded records.
func (b *batch) size() int { return b.plain.size - batchOverhead }

// wire is what is sent.
func (b *batch) wire() *chunks {
	if b.packed.size > 0 {
		return &b.packed
	}
	return &b.plain
}

// sizeWith is the size that a record with this payload would take in the batch.
func (b *batch) sizeWith(payload int, timestamp int64) int {
	if b.records == 0 {
		return recordSize(payload, 0, 0)
	}
	return recordSize(payload, timestamp-b.first, b.records)
}

// append adds a record of that size, see sizeWith.
func (b *batch) append(m *router.Message, payload, size int, tx uint64, pool *bufferPool) {
	b.plain.set(appendPayload(b.place(m.Time, payload, size, pool), m))
	b.count(tx, 1)
}

// place counts a record and returns the chunk for it, with what stands in front of the payload.
func (b *batch) place(timestamp int64, payload, size int, pool *bufferPool) []byte {
	if b.records == 0 {
		b.first, b.max, b.oldest = timestamp, timestamp, timestamp
	}
	b.max = max(b.max, timestamp)
	b.oldest = min(b.oldest, timestamp)
	chunk := appendPlace(b.plain.reserve(pool, size), payload, timestamp-b.first, b.records)
	b.records++
	return chunk
}

func (b *batch) count(tx uint64, n int32) {
	if last := len(b.runs) - 1; last >= 0 && b.runs[last].Tx == tx {
		b.runs[last].N += n
		return
	}
	b.runs = append(b.runs, Ack{Tx: tx, N: n})
}

// stamp writes the header and makes the batch ready to be sent. The leader's epoch (-1) and the base offset (0) are not
// a client's business.
func (b *batch) stamp(producer identity, sequence int32, codec compress.Codec, pool *bufferPool) error {
	var attributes uint16
	if codec != nil {
		if err := b.pack(codec, pool); err != nil {
			return err
		}
		attributes = uint16(codec.Code())
	}
	b.stamped, b.sequence = true, sequence
	wire := b.wire()
	be := binary.BigEndian
	be.PutUint32(wire.parts[0], uint32(wire.size-setPrefixSize))
	h := wire.parts[0][setPrefixSize:]
	be.PutUint64(h[0:], 0)
	be.PutUint32(h[8:], uint32(wire.size-setPrefixSize-12))
	be.PutUint32(h[12:], 0xffffffff)
	h[16] = 2 // format
	be.PutUint16(h[21:], attributes)
	be.PutUint32(h[23:], uint32(b.records-1)) // last offset delta
	be.PutUint64(h[27:], uint64(b.first))
	be.PutUint64(h[35:], uint64(b.max))
	be.PutUint64(h[43:], uint64(producer.id))
	be.PutUint16(h[51:], uint16(producer.epoch))
	be.PutUint32(h[53:], uint32(sequence))
	be.PutUint32(h[57:], uint32(b.records))
	crc := crc32.Checksum(h[21:], castagnoli)
	for _, part := range wire.parts[1:] {
		crc = crc32.Update(crc, castagnoli, part)
	}
	be.PutUint32(h[17:], crc)
	return nil
}

// split copies the first half of the records to one batch and the others to another. Both are as if never sent: the
// broker refused b before it looked at the sequence.
func (b *batch) split(left, right *batch, pool *bufferPool) {
	left.created, right.created = b.created, b.created
	half, runs := b.records/2, b.runs
	var used int32 // records of runs[0] that are in left or right already
	_ = b.writeRecords(func(rest []byte) (int, error) {
		for len(rest) > 0 {
			delta, payload, behind := readPlace(rest)
			into := left
			if left.records == half {
				into = right
			}
			timestamp := b.first + delta
			chunk := into.place(timestamp, payload, into.sizeWith(payload, timestamp), pool)
			into.plain.set(append(chunk, behind[:payload]...))
			if used == runs[0].N {
				runs, used = runs[1:], 0
			}
			into.count(runs[0].Tx, 1)
			used++
			rest = behind[payload:]
		}
		return 0, nil
	})
}

// nextSequence is the sequence n records behind s. After 2^31-1 comes 0.
func nextSequence(s, n int32) int32 { return int32((uint32(s) + uint32(n)) & 0x7fffffff) }
