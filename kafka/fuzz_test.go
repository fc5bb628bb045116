package kafka

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// Bytes that a broker, or who wrote into a topic beside us, could send: headers are read, or the batch is refused; nothing
// is believed that is not there.
func FuzzRecords(f *testing.F) {
	whole := func(codec byte, count uint32, records []byte) []byte {
		b := make([]byte, batchHeader, batchHeader+len(records))
		binary.BigEndian.PutUint32(b[8:], uint32(batchHeader-logHeader+len(records)))
		b[magicOffset], b[22] = format2, codec
		binary.BigEndian.PutUint32(b[57:], count)
		return append(b, records...)
	}
	record := []byte{30, 0, 0, 0, 2, 'k', 2, 'v', 2, 4, 'i', 'd', 4, '4', '2', 0}
	f.Add(whole(0, 1, record))
	f.Add(whole(0, 0x7fffffff, record))
	f.Add(whole(0, 1, []byte{30, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}))
	for codec := byte(1); codec < 8; codec++ {
		f.Add(whole(codec, 1, record))
	}
	f.Add(bytes.Repeat([]byte{0xff}, 80))
	f.Fuzz(func(t *testing.T, set []byte) {
		for range 100 {
			b, rest, ok, err := nextBatch(set)
			if err != nil || !ok {
				return
			}
			if len(rest) >= len(set) {
				t.Fatal("a batch of no bytes")
			}
			if b.codec == 0 { // compressed ones are the codecs' own matter
				total := 0
				_ = b.each(func(headers []readHeader) error {
					for _, h := range headers {
						total += len(h.name) + len(h.value)
					}
					return nil
				})
				if total > len(set) {
					t.Errorf("headers of %d bytes out of %d", total, len(set))
				}
				timed := clock(b, set[:len(set)-len(rest)])
				_ = timed.records(func(*Record) error { return nil })
			}
			set = rest
		}
	})
}
