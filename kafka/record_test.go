package kafka

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/router"
)

func newTestBatch(messages ...*router.Message) *batch {
	p := New(Config{}, nil)
	b := p.newBatch(0)
	for i, m := range messages {
		payload := payloadSize(m)
		size := b.sizeWith(payload, m.Time)
		before := b.plain.size
		b.append(m, payload, size, uint64(i/2), &p.pool)
		if b.plain.size-before != size {
			panic("sizeWith is wrong")
		}
	}
	return b
}

// flat is what is sent of a batch, in one piece.
func flat(b *batch) []byte { return slices.Concat(b.wire().parts...) }

// The same batch, built by Kafka's own Java code.
func TestBatchIsJavas(t *testing.T) {
	b := newTestBatch(
		&router.Message{Time: 1700000000000, Key: []byte("key"), Value: []byte("value"), Headers: []router.Header{
			{Name: "id", Value: []byte("550e8400")}, {Name: "null"}, {Name: "empty", Value: []byte{}}}},
		&router.Message{Time: 1700000000250, Value: []byte("no key")},
		&router.Message{Time: 1699999999000, Key: []byte{}},
		&router.Message{Time: 1700000005000, Key: []byte("key"), Value: make([]byte, 200)},
	)
	if err := b.stamp(identity{id: 77, epoch: 5}, 2147483646, nil, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/java-batch.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(strings.SplitN(string(text), "\n", 2)[1])
	if got := hex.EncodeToString(flat(b)[setPrefixSize:]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if prefix := binary.BigEndian.Uint32(flat(b)); int(prefix) != len(flat(b))-setPrefixSize {
		t.Errorf("size prefix %d of %d bytes", prefix, len(flat(b)))
	}
	if b.oldest != 1699999999000 {
		t.Errorf("oldest %d", b.oldest)
	}
}

// decode reads a batch with franz-go's message code.
func decode(t interface{ Fatalf(string, ...any) }, wire []byte) (kmsg.RecordBatch, []router.Message) {
	var outer kmsg.RecordBatch
	if err := outer.ReadFrom(wire[setPrefixSize:]); err != nil {
		t.Fatalf("decode batch: %v", err)
	}
	if crc := crc32.Checksum(wire[setPrefixSize+21:], castagnoli); uint32(outer.CRC) != crc {
		t.Fatalf("CRC %x, want %x", uint32(outer.CRC), crc)
	}
	var messages []router.Message
	for rest := outer.Records; len(rest) > 0; {
		length, n := binary.Varint(rest)
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(length)]); err != nil {
			t.Fatalf("decode record: %v", err)
		}
		if int(r.OffsetDelta) != len(messages) {
			t.Fatalf("record %d has offset %d", len(messages), r.OffsetDelta)
		}
		m := router.Message{Time: outer.FirstTimestamp + r.TimestampDelta64, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, router.Header{Name: h.Key, Value: h.Value})
		}
		messages = append(messages, m)
		rest = rest[n+int(length):]
	}
	return outer, messages
}

var drawBytes = rapid.Custom(func(t *rapid.T) []byte {
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		return nil
	}
	return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")...)
})

var drawMessage = rapid.Custom(func(t *rapid.T) *router.Message {
	m := &router.Message{
		Key: drawBytes.Draw(t, "key"), Value: drawBytes.Draw(t, "value"),
		Time: rapid.OneOf(rapid.Int64Range(0, 1<<42), rapid.Int64Range(math.MinInt64/2, math.MaxInt64/2)).Draw(t, "time"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "headers") {
		m.Headers = append(m.Headers, router.Header{Name: rapid.String().Draw(t, "name"), Value: drawBytes.Draw(t, "header")})
	}
	return m
})

func content(messages []*router.Message) []router.Message {
	var all []router.Message
	for _, m := range messages {
		all = append(all, router.Message{Time: m.Time, Key: m.Key, Value: m.Value, Headers: m.Headers})
	}
	return all
}

var sameMessages = cmp.Comparer(func(a, b router.Message) bool {
	return a.Time == b.Time && cmp.Equal(a.Key, b.Key) && cmp.Equal(a.Value, b.Value) && cmp.Equal(a.Headers, b.Headers)
})

// What is encoded is what another implementation reads: null and empty told apart, any timestamps, any bytes.
func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(drawMessage, 1, 50).Draw(t, "messages")
		b := newTestBatch(messages...)
		if err := b.stamp(identity{id: 9, epoch: 2}, 41, nil, nil); err != nil {
			t.Fatal(err)
		}
		outer, decoded := decode(t, flat(b))
		if diff := cmp.Diff(content(messages), decoded, sameMessages); diff != "" {
			t.Fatal(diff)
		}
		if outer.ProducerID != 9 || outer.ProducerEpoch != 2 || outer.FirstSequence != 41 ||
			int(outer.NumRecords) != len(messages) || int(outer.LastOffsetDelta) != len(messages)-1 ||
			outer.MaxTimestamp != b.max || outer.PartitionLeaderEpoch != -1 || outer.Magic != 2 {
			t.Fatalf("header %+v", outer)
		}
	})
}

// Both halves of a split batch together are the batch, with its transactions.
func TestSplitBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(drawMessage, 2, 50).Draw(t, "messages")
		b := newTestBatch(messages...)
		left, right := newTestBatch(), newTestBatch()
		b.split(left, right, &New(Config{}, nil).pool)
		var all []router.Message
		var acks []Ack
		for _, half := range []*batch{left, right} {
			if err := half.stamp(identity{}, 0, nil, nil); err != nil {
				t.Fatal(err)
			}
			outer, decoded := decode(t, flat(half))
			if outer.MaxTimestamp != half.max || outer.FirstTimestamp != decoded[0].Time {
				t.Fatalf("timestamps of %+v", outer)
			}
			all = append(all, decoded...)
			acks = append(acks, half.runs...)
		}
		if diff := cmp.Diff(content(messages), all, sameMessages); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(perTx(b.runs), perTx(acks)); diff != "" {
			t.Fatal(diff)
		}
		if left.records != int32(len(messages)/2) {
			t.Fatalf("%d of %d records in the first half", left.records, len(messages))
		}
	})
}

func perTx(acks []Ack) map[uint64]int32 {
	sum := map[uint64]int32{}
	for _, a := range acks {
		sum[a.Tx] += a.N
	}
	return sum
}

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct{ s, n, want int32 }{
		{0, 1, 1}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 1, math.MaxInt32}, {math.MaxInt32 - 1, 5, 3}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := nextSequence(c.s, c.n); got != c.want {
			t.Errorf("%d records behind %d: %d, want %d", c.n, c.s, got, c.want)
		}
	}
}

// Every codec, read back by franz-go, whose decoders may not be made in a bubble.
func TestCompression(t *testing.T) {
	for _, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			configure := func(cfg *Config) { cfg.Compression = codec }
			onTCP(t, 1, []kfake.Opt{kfake.SeedTopics(2, "orders")}, configure, func(h *harness) {
				h.pad = 200
				for i := range 500 {
					h.send("orders", key(i), i, i+1)
				}
				h.flushAndAudit()
				stats := h.p.Stats()
				if compressed := stats.Bytes < 500*200/2; compressed != (codec != compress.None) {
					t.Errorf("%d bytes on the wire", stats.Bytes)
				}
				for _, r := range h.records("orders") {
					if r.Attrs.CompressionType() != uint8(codec) {
						t.Fatalf("compression type %d", r.Attrs.CompressionType())
					}
				}
			})
		})
	}
}

// Null and empty, headers and timestamps as the log has them.
func TestRecordsInTheLog(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		h.append(&router.Message{Topic: "orders", Key: []byte("k"), Value: []byte("v"), Time: 1700000000123, Partition: 0,
			Headers: []router.Header{{Name: "a", Value: []byte("1")}, {Name: "a"}, {Name: "", Value: []byte{}}}})
		h.append(&router.Message{Topic: "orders", Time: 1600000000000, Partition: 0})
		h.append(&router.Message{Topic: "orders", Key: []byte{}, Value: []byte{}, Time: 1700000000124, Partition: 0})
		h.flush()
		records := h.records("orders")
		if len(records) != 3 {
			t.Fatalf("%d records", len(records))
		}
		first := records[0]
		wantHeaders := []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}
		if diff := cmp.Diff(wantHeaders, first.Headers); diff != "" {
			t.Error(diff)
		}
		if string(first.Key) != "k" || string(first.Value) != "v" || first.Timestamp.UnixMilli() != 1700000000123 {
			t.Errorf("%+v", first)
		}
		if null := records[1]; null.Key != nil || null.Value != nil || null.Headers != nil || null.Timestamp.UnixMilli() != 1600000000000 {
			t.Errorf("%+v", null)
		}
		if empty := records[2]; empty.Key == nil || empty.Value == nil || len(empty.Key)+len(empty.Value) != 0 {
			t.Errorf("%+v", empty)
		}
	})
}
