package kafka

import (
	"encoding/binary"
	"math/bits"

	"github.com/walrelay/walrelay/router"
)

// A record of a record batch, format 2 (Kafka documentation, "Message Format"):
//
//	length, attributes (0), timestamp delta, offset delta, key, value, headers
//
// All numbers are zigzag varints. A null field has length -1.

// maxRecordOverhead is what a record can add to its payload: length, attributes and the two deltas.
const maxRecordOverhead = 5 + 1 + 10 + 5

// payloadSize is the encoded size of key, value and headers, which does not depend on the place in the batch.
func payloadSize(m *router.Message) int {
	size := fieldSize(m.Key) + fieldSize(m.Value) + varintSize(int64(len(m.Headers)))
	for i := range m.Headers {
		h := &m.Headers[i]
		size += varintSize(int64(len(h.Name))) + len(h.Name) + fieldSize(h.Value)
	}
	return size
}

func fieldSize(field []byte) int {
	if field == nil {
		return 1
	}
	return varintSize(int64(len(field))) + len(field)
}

func varintSize(v int64) int {
	zigzag := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}

// bodySize is the size of a record behind its length.
func bodySize(payload int, timeDelta int64, offsetDelta int32) int {
	return 1 + varintSize(timeDelta) + varintSize(int64(offsetDelta)) + payload
}

// recordSize is the size of a whole record.
func recordSize(payload int, timeDelta int64, offsetDelta int32) int {
	body := bodySize(payload, timeDelta, offsetDelta)
	return varintSize(int64(body)) + body
}

// appendPlace appends everything in front of the payload.
func appendPlace(b []byte, payload int, timeDelta int64, offsetDelta int32) []byte {
	b = binary.AppendVarint(b, int64(bodySize(payload, timeDelta, offsetDelta)))
	b = append(b, 0) // attributes: none is defined
	b = binary.AppendVarint(b, timeDelta)
	return binary.AppendVarint(b, int64(offsetDelta))
}

// appendPayload appends key, value and headers.
func appendPayload(b []byte, m *router.Message) []byte {
	b = appendField(b, m.Key)
	b = appendField(b, m.Value)
	b = binary.AppendVarint(b, int64(len(m.Headers)))
	for i := range m.Headers {
		h := &m.Headers[i]
		b = binary.AppendVarint(b, int64(len(h.Name)))
		b = append(b, h.Name...)
		b = appendField(b, h.Value)
	}
	return b
}

func appendField(b, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(b, -1)
	}
	b = binary.AppendVarint(b, int64(len(field)))
	return append(b, field...)
}

// readPlace reads what appendPlace wrote. rest starts at the payload, which has the given size.
func readPlace(b []byte) (timeDelta int64, payload int, rest []byte) {
	body, n := binary.Varint(b)
	b = b[n:]
	timeDelta, t := binary.Varint(b[1:])
	_, o := binary.Varint(b[1+t:])
	place := 1 + t + o
	return timeDelta, int(body) - place, b[place:]
}
