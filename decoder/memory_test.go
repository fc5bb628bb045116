package decoder_test

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/walrelay/walrelay/decoder"
	pgo "github.com/walrelay/walrelay/internal/pgoutputtest"
)

// move rewrites the positions of a BEGIN and a COMMIT to those of the n-th transaction, since none may come twice.
func move(begin, commit []byte, n uint64) {
	start := 0x1000 + n*0x100
	binary.BigEndian.PutUint64(begin[1:], start)
	binary.BigEndian.PutUint64(commit[2:], start)
	binary.BigEndian.PutUint64(commit[10:], start+0x30)
}

// A transaction in the steady state allocates nothing.
func TestDecodeDoesNotAllocate(t *testing.T) {
	beginFrame, commitFrame := pgo.Begin(begin), pgo.Commit(commit)
	stream := slices.Concat(
		[][]byte{pgo.Message(decoder.Message{Prefix: []byte("heartbeat")}), beginFrame},
		[][]byte{pgo.Insert(16385, row...), pgo.Message(decoder.Message{Transactional: true, Content: []byte("c")})},
		[][]byte{slices.Concat([]byte("U\x00\x00\x40\x01N"), pgo.AppendTuple(nil, row...))},
		[][]byte{slices.Concat([]byte("D\x00\x00\x40\x01K"), pgo.AppendTuple(nil, row...))},
		[][]byte{[]byte("T\x00\x00\x00\x01\x00\x00\x00\x40\x01"), []byte("Y\x00\x00\x00\x01\x00\x00")},
		[][]byte{[]byte("O\x00\x00\x00\x00\x00\x00\x00\x01\x00"), commitFrame},
	)
	d := after(t, append(opened(), pgo.Commit(commit))...)
	n := uint64(0)
	allocations := testing.AllocsPerRun(100, func() {
		n++
		move(beginFrame, commitFrame, n)
		for _, frame := range stream {
			if _, err := d.Decode(frame); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations per transaction", allocations)
	}
}

// A frame of 69 bytes that claims 65535 columns would take 2 MiB, were it believed.
func TestClaimedColumnsAreNotAllocated(t *testing.T) {
	frame := pgo.Relation(outbox)
	frame[24], frame[25] = 0xff, 0xff
	d := after(t, pgo.Begin(begin))
	const runs = 100
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := d.Decode(frame); err == nil {
			t.Fatal("no error")
		}
	}
	runtime.ReadMemStats(&now)
	if perFrame := (now.TotalAlloc - before.TotalAlloc) / runs; perFrame > 4096 {
		t.Errorf("%d bytes allocated for a frame of %d bytes", perFrame, len(frame))
	}
}

func BenchmarkDecode(b *testing.B) {
	relation := decoder.Relation{ID: 16385, Namespace: "public", Name: "outbox", Identity: 'd'}
	for _, name := range []string{"id", "aggregatetype", "aggregateid", "type", "payload", "created_at"} {
		relation.Columns = append(relation.Columns, decoder.RelationColumn{Name: name, Type: 25, Modifier: -1})
	}
	insert := pgo.Insert(16385,
		pgo.Text("0198f5a2-6c1e-7c3a-9c55-3f1f0a6f2b11"), pgo.Text("order"), pgo.Text("1234567"), pgo.Text("OrderCreated"),
		pgo.Text(string(make([]byte, 300))), pgo.Text("2026-11-29 12:00:00.123456+00"))
	b.Run("row", func(b *testing.B) {
		d := after(b, pgo.Begin(begin), pgo.Relation(relation))
		b.SetBytes(int64(len(insert)))
		b.ReportAllocs()
		for b.Loop() {
			decode(b, d, insert)
		}
	})
	b.Run("transaction of one row", func(b *testing.B) {
		d := after(b, pgo.Begin(begin), pgo.Relation(relation), pgo.Commit(commit))
		beginFrame, commitFrame, n := pgo.Begin(begin), pgo.Commit(commit), uint64(0)
		b.ReportAllocs()
		for b.Loop() {
			n++
			move(beginFrame, commitFrame, n)
			decode(b, d, beginFrame, insert, commitFrame)
		}
	})
	b.Run("relation", func(b *testing.B) {
		d, frame := after(b, pgo.Begin(begin)), pgo.Relation(relation)
		b.ReportAllocs()
		for b.Loop() {
			decode(b, d, frame)
		}
	})
}

func decode(b *testing.B, d *decoder.Decoder, frames ...[]byte) {
	for _, frame := range frames {
		if _, err := d.Decode(frame); err != nil {
			b.Fatal(err)
		}
	}
}
