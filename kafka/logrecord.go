package kafka

import (
	"encoding/binary"
	"fmt"
)

// Record is one record as it stands in a topic's log. Its slices are valid only during the call that hands it over; a
// nil Key, Value or header value is a Kafka null.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Time       int64 // ms since 1970
	Key, Value []byte
	Headers    []RecordHeader // in the order of the record
}

// RecordHeader is a header of a record in the log.
type RecordHeader struct{ Name, Value []byte }

// logBatch is a batch with what its records need of its header: their times count from time, or are all the broker's.
type logBatch struct {
	readBatch
	time    int64 // ms
	uniform bool
}

// clock completes a batch from its bytes (Kafka documentation, "Record Batch"). whole is as nextBatch has read it.
func clock(b readBatch, whole []byte) logBatch {
	const attributes, first, last, brokersTime = 21, 27, 35, 0x08
	switch be := binary.BigEndian; {
	case len(whole) < batchHeader: // of an old format, and taken for empty
		return logBatch{readBatch: b}
	case be.Uint16(whole[attributes:])&brokersTime != 0:
		return logBatch{b, int64(be.Uint64(whole[last:])), true}
	default:
		return logBatch{b, int64(be.Uint64(whole[first:])), false}
	}
}

// records hands over every record, without topic and partition.
func (b *logBatch) records(take func(*Record) error) error {
	plain, err := b.plain()
	if err != nil {
		return err
	}
	all := reader{b: plain}
	var r Record
	for range b.count {
		body := reader{b: all.field()}
		if !b.read(&body, &r) || all.bad {
			return fmt.Errorf("batch at offset %d: %w", b.base, errFetchAnswer)
		}
		if err := take(&r); err != nil {
			return err
		}
	}
	return nil
}

// read decodes one record (Kafka documentation, "Record"); false when it is cut.
func (b *logBatch) read(body *reader, r *Record) bool {
	body.skip(1) // attributes
	r.Time = b.time
	if delta := body.varint(); !b.uniform {
		r.Time += delta
	}
	r.Offset = b.base + body.varint()
	r.Key, r.Value = body.field(), body.field()
	r.Headers = r.Headers[:0]
	for range body.varint() {
		h := RecordHeader{body.field(), body.field()}
		if body.bad {
			break
		}
		r.Headers = append(r.Headers, h)
	}
	return !body.bad
}
