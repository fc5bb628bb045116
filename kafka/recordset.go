package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/compress"
)

// readBatch is a record batch as it stands in the log (Kafka documentation, "Record Batch").
type readBatch struct {
	base, last int64 // offsets; records between may have been removed by compaction
	control    bool  // a transaction marker
	// transactional: a marker behind it tells whether it counts.
	transactional bool
	producer      identity
	codec         compress.Compression
	count         int32
	first, newest int64  // record times, ms since 1970
	appendTime    bool   // newest is the broker's clock and goes for every record
	records       []byte // compressed

	// Of the record that each is at:
	key  []byte
	time int64 // ms since 1970
}

const (
	logHeader   = 12 // base offset and length, in every format
	batchHeader = 61
	magicOffset = 16
	format2     = 2
)

// nextBatch takes the first batch of a record set. It reports false when the rest is a batch that was cut, as brokers
// do at the end of an answer. A record of the formats before 2 comes back as an empty batch: none of ours is so old.
func nextBatch(set []byte) (b readBatch, rest []byte, ok bool, err error) {
	if len(set) < logHeader {
		return readBatch{}, nil, false, nil
	}
	size := int(int32(binary.BigEndian.Uint32(set[8:])))
	if size < 0 {
		return readBatch{}, nil, false, errFetchAnswer
	}
	if len(set)-logHeader < size {
		return readBatch{}, nil, false, nil
	}
	whole, rest := set[:logHeader+size], set[logHeader+size:]
	base := int64(binary.BigEndian.Uint64(whole))
	if len(whole) <= magicOffset || whole[magicOffset] != format2 {
		return readBatch{base: base, last: base}, rest, true, nil
	}
	if len(whole) < batchHeader {
		return readBatch{}, nil, false, errFetchAnswer
	}
	be := binary.BigEndian
	attributes := be.Uint16(whole[21:])
	return readBatch{
		base:          base,
		last:          base + int64(be.Uint32(whole[23:])),
		control:       attributes&0x20 != 0,
		transactional: attributes&0x10 != 0,
		producer:      identity{id: int64(be.Uint64(whole[43:])), epoch: int16(be.Uint16(whole[51:]))},
		codec:         compress.Compression(attributes & 7),
		count:         int32(be.Uint32(whole[57:])),
		first:         int64(be.Uint64(whole[27:])),
		newest:        int64(be.Uint64(whole[35:])),
		appendTime:    attributes&0x08 != 0,
		records:       whole[batchHeader:],
	}, rest, true, nil
}

// readHeader is a header of a record in the log.
type readHeader struct{ name, value []byte }

// each calls take with the headers of every record; they are valid during the call.
func (b *readBatch) each(take func(headers []readHeader) error) error {
	records, err := b.plain()
	if err != nil {
		return err
	}
	all := reader{b: records}
	var headers []readHeader
	for range b.count {
		record := reader{b: all.field()}
		record.skip(1) // attributes
		b.time = b.first + record.varint()
		if b.appendTime {
			b.time = b.newest
		}
		record.varint() // offset
		b.key = record.field()
		record.field() // value
		headers = headers[:0]
		for range record.varint() {
			h := readHeader{record.field(), record.field()}
			if record.bad {
				break
			}
			headers = append(headers, h)
		}
		if all.bad || record.bad {
			return fmt.Errorf("batch at offset %d: %w", b.base, errFetchAnswer)
		}
		if err := take(headers); err != nil {
			return err
		}
	}
	return nil
}

// plain is the records without compression.
func (b *readBatch) plain() ([]byte, error) {
	if b.codec == compress.None {
		return b.records, nil
	}
	codec := b.codec.Codec()
	if codec == nil {
		return nil, fmt.Errorf("batch at offset %d: unknown compression %d", b.base, b.codec)
	}
	r := codec.NewReader(bytes.NewReader(b.records))
	records, err := io.ReadAll(r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("batch at offset %d: decompress %s: %w", b.base, codec.Name(), err)
	}
	return records, nil
}
