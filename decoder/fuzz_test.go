package decoder_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/decoder"
	pgo "github.com/walrelay/walrelay/internal/pgoutputtest"
	"github.com/walrelay/walrelay/lsn"
)

// FuzzDecode feeds a stream in the form of testdata/*.frames. Whatever the bytes are, a frame is either refused with
// a place inside it, or what was decoded makes the same frame again: nothing is invented and nothing left out.
func FuzzDecode(f *testing.F) {
	for _, version := range captured {
		addSeeds(f, readFrames(f, version))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := decoder.New()
		for len(stream) >= 4 {
			n := min(uint64(binary.BigEndian.Uint32(stream)), uint64(len(stream)-4))
			frame := stream[4 : 4+n : 4+n]
			stream = stream[4+n:]
			kind, err := d.Decode(frame)
			var bad *decoder.FrameError
			switch {
			case err == nil:
				checkEncodesBack(t, d, kind, frame)
			case !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(frame):
				t.Fatalf("error %#v", err)
			}
		}
	})
}

// addSeeds adds each captured frame in a small stream in which it is valid: whole streams would keep the fuzzer busy
// with making them smaller.
func addSeeds(f *testing.F, frames [][]byte) {
	var begin []byte
	relations := make(map[string][]byte) // by oid
	for _, frame := range frames {
		var stream [][]byte
		switch kind := decoder.Kind(frame[0]); {
		case len(frame) > 1024:
			continue
		case kind == decoder.KindBegin:
			begin = frame
			continue
		case kind == decoder.KindRelation:
			relations[string(frame[1:5])] = frame
			stream = [][]byte{begin, frame}
		case kind == decoder.KindInsert:
			stream = [][]byte{begin, relations[string(frame[1:5])], frame}
		default:
			stream = [][]byte{begin, frame}
		}
		f.Add(join(stream))
	}
}

func checkEncodesBack(t *testing.T, d *decoder.Decoder, kind decoder.Kind, frame []byte) {
	var again []byte
	switch kind {
	case decoder.KindBegin:
		again = pgo.Begin(d.Begin)
	case decoder.KindCommit:
		again = pgo.Commit(d.Commit)
	case decoder.KindInsert:
		if len(d.Row.Columns) != len(d.Row.Relation.Columns) {
			t.Fatalf("%d columns in a row of %+v", len(d.Row.Columns), d.Row.Relation)
		}
		again = pgo.Insert(d.Row.Relation.ID, d.Row.Columns...)
	case decoder.KindMessage:
		again = pgo.Message(d.Message)
	case decoder.KindRelation:
		checkRelation(t, d.Relation, frame)
		return
	default:
		return // content is not kept
	}
	if !bytes.Equal(again, frame) {
		t.Fatalf("%v\n%q makes\n%q", kind, frame, again)
	}
}

// checkRelation allows for the flags that are not kept.
func checkRelation(t *testing.T, r *decoder.Relation, frame []byte) {
	again := pgo.Relation(*r)
	if len(again) != len(frame) {
		t.Fatalf("relation %q makes %q", frame, again)
	}
	d := after(t, pgo.Begin(begin), again)
	if diff := cmp.Diff(r, d.Relation); diff != "" {
		t.Fatal(diff)
	}
}

// What Postgres could write is decoded to what it wrote.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := decoder.New()
		decode := func(frame []byte) {
			if _, err := d.Decode(frame); err != nil {
				t.Fatal(err)
			}
		}
		begin := decoder.Begin{
			Commit: lsn.Start(rapid.Uint64Max(1<<63).Draw(t, "commit")), XID: rapid.Uint32().Draw(t, "xid"),
			Time: rapid.Int64Range(-1<<55, 1<<55).Draw(t, "time"),
		}
		relation := drawRelation(t)
		decode(pgo.Begin(begin))
		decode(pgo.Relation(relation))
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := decoder.Row{Relation: &relation, Columns: drawColumns(t, len(relation.Columns))}
			decode(pgo.Insert(relation.ID, row.Columns...))
			if diff := cmp.Diff(row, d.Row); diff != "" {
				t.Fatal(diff)
			}
			message := decoder.Message{
				Transactional: rapid.Bool().Draw(t, "transactional"), LSN: rapid.Uint64().Draw(t, "lsn"),
				Prefix: drawText(t, "prefix"), Content: rapid.SliceOf(rapid.Byte()).Draw(t, "content"),
			}
			decode(pgo.Message(message))
			if diff := cmp.Diff(message, d.Message); diff != "" {
				t.Fatal(diff)
			}
		}
		commit := decoder.Commit{Start: begin.Commit, End: lsn.End(begin.Commit) + 48, Time: begin.Time}
		decode(pgo.Commit(commit))
		if diff := cmp.Diff([]any{begin, commit}, []any{d.Begin, d.Commit}); diff != "" {
			t.Fatal(diff)
		}
	})
}

func drawText(t *rapid.T, label string) []byte {
	return []byte(rapid.StringMatching(`[^\x00]{0,20}`).Draw(t, label))
}

func drawRelation(t *rapid.T) decoder.Relation {
	r := decoder.Relation{
		ID: rapid.Uint32().Draw(t, "oid"), Identity: rapid.SampledFrom([]byte("dnfi")).Draw(t, "identity"),
		Namespace: string(drawText(t, "namespace")), Name: string(drawText(t, "name")),
	}
	r.Columns = make([]decoder.RelationColumn, rapid.IntRange(1, 10).Draw(t, "columns"))
	for i := range r.Columns {
		r.Columns[i] = decoder.RelationColumn{
			Name: string(drawText(t, "column")), Type: rapid.Uint32().Draw(t, "type"),
			Modifier: rapid.Int32().Draw(t, "modifier"), Key: rapid.Bool().Draw(t, "key"),
		}
	}
	return r
}

func drawColumns(t *rapid.T, n int) []decoder.Column {
	columns := make([]decoder.Column, n)
	for i := range columns {
		columns[i].Kind = rapid.SampledFrom([]byte("ntbu")).Draw(t, "kind")
		if columns[i].Kind == decoder.ColumnText || columns[i].Kind == decoder.ColumnBinary {
			columns[i].Data = rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		}
	}
	return columns
}
