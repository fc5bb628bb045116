package decoder_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/walrelay/walrelay/decoder"
	pgo "github.com/walrelay/walrelay/internal/pgoutputtest"
)

var (
	begin  = decoder.Begin{Commit: 0x100, Time: 1_764_000_000_000_001, XID: 733}
	commit = decoder.Commit{Start: 0x100, End: 0x130, Time: 1_764_000_000_000_001}
	outbox = decoder.Relation{
		ID: 16385, Namespace: "public", Name: `odd "name"`, Identity: 'd',
		Columns: []decoder.RelationColumn{
			{Name: "id", Type: 20, Modifier: -1, Key: true},
			{Name: "type", Type: 1043, Modifier: 44},
			{Name: "payload", Type: 3802, Modifier: -1},
		},
	}
	row = []decoder.Column{pgo.Text("1"), pgo.Null(), pgo.Text("")}
)

// opened is a stream whose transaction is open and whose relation is known.
func opened() [][]byte { return [][]byte{pgo.Begin(begin), pgo.Relation(outbox)} }

type valid struct {
	name   string
	before [][]byte
	frame  []byte
	kind   decoder.Kind
	got    func(*decoder.Decoder) any // nil where no content is kept
	want   any
}

func validFrames() []valid {
	getMessage := func(d *decoder.Decoder) any { return d.Message }
	transactional := decoder.Message{Transactional: true, LSN: 0xF0, Prefix: []byte("outbox"), Content: []byte("a\x00b")}
	loose := decoder.Message{LSN: 0xF0, Prefix: []byte{}, Content: []byte{}}
	binary := []decoder.Column{
		{Kind: decoder.ColumnBinary, Data: []byte{0, 1}}, {Kind: decoder.ColumnUnchanged}, pgo.Text("{}"),
	}
	empty := decoder.Relation{ID: 7, Name: "pg_class", Identity: 'n', Columns: []decoder.RelationColumn{}}
	tuple := pgo.AppendTuple(nil, row...)
	oid := []byte{0, 0, 0x40, 1}
	open := [][]byte{pgo.Begin(begin)}
	return []valid{
		{"begin", nil, pgo.Begin(begin), 'B', func(d *decoder.Decoder) any { return d.Begin }, begin},
		{"commit", open, pgo.Commit(commit), 'C', func(d *decoder.Decoder) any { return d.Commit }, commit},
		{"relation", open, pgo.Relation(outbox), 'R', func(d *decoder.Decoder) any { return d.Relation }, &outbox},
		{"relation of pg_catalog, no columns", open, pgo.Relation(empty), 'R',
			func(d *decoder.Decoder) any { return d.Relation }, &empty},
		{"insert: text, null, empty text", opened(), pgo.Insert(16385, row...), 'I',
			func(d *decoder.Decoder) any { return d.Row }, decoder.Row{Relation: &outbox, Columns: row}},
		{"insert: binary, unchanged, text", opened(), pgo.Insert(16385, binary...), 'I',
			func(d *decoder.Decoder) any { return d.Row }, decoder.Row{Relation: &outbox, Columns: binary}},
		{"insert without columns", [][]byte{pgo.Begin(begin), pgo.Relation(empty)}, pgo.Insert(7), 'I',
			func(d *decoder.Decoder) any { return d.Row }, decoder.Row{Relation: &empty}},
		{"transactional message", open, pgo.Message(transactional), 'M', getMessage, transactional},
		{"message without transaction", nil, pgo.Message(loose), 'M', getMessage, loose},
		{"update", opened(), slices.Concat([]byte("U"), oid, []byte("N"), tuple), 'U', nil, nil},
		{"update with old key", opened(), slices.Concat([]byte("U"), oid, []byte("K"), tuple, []byte("N"), tuple), 'U', nil, nil},
		{"update with old row", opened(), slices.Concat([]byte("U"), oid, []byte("O"), tuple, []byte("N"), tuple), 'U', nil, nil},
		{"delete by key", opened(), slices.Concat([]byte("D"), oid, []byte("K"), tuple), 'D', nil, nil},
		{"delete by row", opened(), slices.Concat([]byte("D"), oid, []byte("O"), tuple), 'D', nil, nil},
		{"truncate", opened(), slices.Concat([]byte("T\x00\x00\x00\x02\x01"), oid, oid), 'T', nil, nil},
		{"type", open, slices.Concat([]byte("Y"), oid, []byte("public\x00mood\x00")), 'Y', nil, nil},
		{"origin", open, []byte("O\x00\x00\x00\x00\x00\x00\x00\x09elsewhere\x00"), 'O', nil, nil},
	}
}

// after returns a Decoder that has read the frames.
func after(t testing.TB, frames ...[]byte) *decoder.Decoder {
	t.Helper()
	d := decoder.New()
	for _, f := range frames {
		if _, err := d.Decode(f); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, test := range validFrames() {
		d := after(t, test.before...)
		kind, err := d.Decode(test.frame)
		if err != nil || kind != test.kind {
			t.Errorf("%s: kind %v, error %v", test.name, kind, err)
		}
		if test.got == nil {
			continue
		}
		if diff := cmp.Diff(test.want, test.got(d)); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
}

// Each cut of each valid frame is an error, and so is a byte too many. Neither changes what the decoder knows.
func TestCutFrames(t *testing.T) {
	t.Parallel()
	for _, test := range validFrames() {
		d := after(t, test.before...)
		refuse := func(frame []byte, what string) {
			t.Helper()
			_, err := d.Decode(frame)
			var bad *decoder.FrameError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(frame) || bad.Reason == "" {
				t.Errorf("%s, %s: error %#v", test.name, what, err)
			}
		}
		for n := range test.frame {
			refuse(test.frame[:n:n], "cut")
		}
		refuse(append(slices.Clone(test.frame), 'n'), "a byte too many")
		state := cmp.Options{cmp.AllowUnexported(decoder.Decoder{}), cmpopts.IgnoreFields(decoder.Decoder{}, "columns")}
		if diff := cmp.Diff(after(t, test.before...), d, state); diff != "" {
			t.Errorf("%s: refused frames changed the state\n%s", test.name, diff)
		}
		if _, err := d.Decode(test.frame); err != nil {
			t.Errorf("%s: whole frame after the cut ones: %v", test.name, err)
		}
	}
}

func TestRefusedFrames(t *testing.T) {
	t.Parallel()
	set := func(at int, bytes ...byte) func([]byte) []byte {
		return func(f []byte) []byte { copy(f[at:], bytes); return f }
	}
	same := func(f []byte) []byte { return f }
	insert := pgo.Insert(16385, row...)
	message := pgo.Message(decoder.Message{Transactional: true, Prefix: []byte("p"), Content: []byte("c")})
	update := slices.Concat([]byte("U\x00\x00\x40\x01N"), pgo.AppendTuple(nil, row...))
	remove := slices.Concat([]byte("D\x00\x00\x40\x01K"), pgo.AppendTuple(nil, row...))
	for _, test := range []struct {
		name    string
		before  [][]byte
		frame   []byte
		corrupt func([]byte) []byte
		offset  int
		reason  string
	}{
		{"message type of protocol version 2", nil, pgo.Begin(begin), set(0, 'S'), 1, "not a message type"},
		{"transaction in transaction", opened(), pgo.Begin(begin), same, 1, "already open"},
		{"transaction out of order", [][]byte{pgo.Begin(begin), pgo.Commit(commit)}, pgo.Begin(begin), set(8, 0x2f), 21,
			"commit record at 0/12F, but the transaction before ends at 0/130"},
		{"commit without transaction", nil, pgo.Commit(commit), same, 1, "no transaction"},
		{"commit of another transaction", opened(), pgo.Commit(commit), set(9, 1), 26, "commit record at 0/101, but the open transaction's is at 0/100"},
		{"commit that ends at its start", opened(), pgo.Commit(commit), set(17, 0), 26, "end 0/100 is not behind"},
		{"commit with flags", opened(), pgo.Commit(commit), set(1, 4), 2, "flags 0x4"},
		{"relation without transaction", nil, pgo.Relation(outbox), same, 1, "no transaction"},
		{"relation with more columns than bytes", opened()[:1], pgo.Relation(outbox), set(24, 0xff, 0xff), 26, "65535 columns do not fit into 43 bytes"},
		{"row without transaction", nil, insert, same, 1, "no transaction"},
		{"row behind the commit", append(opened(), pgo.Commit(commit)), insert, same, 1, "no transaction"},
		{"row of an unknown relation", opened(), insert, set(4, 9), 5, "relation 16393 was not announced"},
		{"row with an old tuple's tag", opened(), insert, set(5, 'O'), 6, "tag"},
		{"row with a column missing", opened(), pgo.Insert(16385, row[:2]...), same, 8, "2 columns, the relation has 3"},
		{"row with a column too many", opened(), pgo.Insert(16385, append(row, row...)...), same, 8, "6 columns, the relation has 3"},
		{"row with an unknown column kind", opened(), insert, set(8, 'x'), 8, "unknown column kind"},
		{"row with a column of 4 GiB", opened(), insert, set(9, 0xff, 0xff, 0xff, 0xff), 13, "4294967295 bytes wanted, 7 left"},
		{"row with a column one byte too long", opened(), insert, set(15, 't', 0, 0, 0, 1), 20, "1 bytes wanted, 0 left"},
		{"transactional message without transaction", nil, message, same, 2, "no transaction"},
		{"message with unknown flags", opened(), message, set(1, 3), 2, "flags 0x3"},
		{"message with content of 4 GiB", opened(), message, set(12, 0xff, 0xff, 0xff, 0xff), 16, "4294967295 bytes wanted, 1 left"},
		{"update without transaction", nil, update, same, 1, "no transaction"},
		{"update without a new row", opened(), update, set(5, 'K'), len(update), "1 bytes wanted"},
		{"update with an unknown tag", opened(), update, set(5, 'X'), 6, "tag"},
		{"delete without transaction", nil, remove, same, 1, "no transaction"},
		{"delete of a new row", opened(), remove, set(5, 'N'), 6, "tag"},
		{"truncate without transaction", nil, []byte("T\x00\x00\x00\x00\x00"), same, 1, "no transaction"},
		{"truncate of 4 billion relations", opened(), []byte("T\x00\x00\x00\x01\x00\x00\x00\x00\x05"), set(1, 0xff, 0xff, 0xff, 0xff), 6, "17179869180 bytes of oids wanted, 4 left"},
		{"type without transaction", nil, []byte("Y\x00\x00\x00\x01\x00\x00"), same, 1, "no transaction"},
		{"origin without transaction", nil, []byte("O\x00\x00\x00\x00\x00\x00\x00\x01\x00"), same, 1, "no transaction"},
	} {
		d := after(t, test.before...)
		_, err := d.Decode(test.corrupt(slices.Clone(test.frame)))
		var bad *decoder.FrameError
		if !errors.As(err, &bad) || bad.Offset != test.offset || !strings.Contains(bad.Reason, test.reason) {
			t.Errorf("%s: %v, want byte %d: %s", test.name, err, test.offset, test.reason)
		}
	}
}

func TestFrameErrorText(t *testing.T) {
	t.Parallel()
	for frame, want := range map[string]string{
		"":      `decode pgoutput '\x00' at byte 0: the frame is empty`,
		"S":     `decode pgoutput 'S' at byte 1: not a message type of protocol version 1`,
		"B\x01": `decode pgoutput begin at byte 1: 8 bytes wanted, 1 left`,
	} {
		if _, err := decoder.New().Decode([]byte(frame)); err == nil || err.Error() != want {
			t.Errorf("frame %q: %v, want %s", frame, err, want)
		}
	}
}

// A value in a broken frame never gets into the error, which is logged.
func TestFrameErrorHasNoValue(t *testing.T) {
	t.Parallel()
	const secret = "ZZZZ"
	frame := pgo.Insert(16385, pgo.Text(secret), pgo.Text(secret), pgo.Text(secret))
	for at := 1; at < len(frame); at++ {
		for _, b := range []byte{0, 'Z', 0xff} {
			broken := slices.Clone(frame)
			broken[at] = b
			if _, err := after(t, opened()...).Decode(broken); err != nil && strings.Contains(err.Error(), "Z") {
				t.Errorf("byte %d = %q: %v", at, b, err)
			}
		}
	}
}

func TestRelationIsReplaced(t *testing.T) {
	t.Parallel()
	d := after(t, append(opened(), pgo.Insert(16385, row...))...)
	first := d.Row.Relation

	wider := outbox
	wider.Columns = append(slices.Clone(outbox.Columns), decoder.RelationColumn{Name: "note", Type: 25, Modifier: -1})
	for _, frame := range [][]byte{pgo.Relation(wider), pgo.Insert(16385, append(row, pgo.Null())...)} {
		if _, err := d.Decode(frame); err != nil {
			t.Fatal(err)
		}
	}
	if d.Row.Relation == first || d.Row.Relation != d.Relation {
		t.Error("the row after the new relation does not have it")
	}
	if diff := cmp.Diff(&outbox, first); diff != "" {
		t.Errorf("the old relation was changed: %s", diff)
	}
	if diff := cmp.Diff(&wider, d.Row.Relation); diff != "" {
		t.Error(diff)
	}

	if _, err := d.Decode(pgo.Relation(wider)); err != nil {
		t.Fatal(err)
	}
	if d.Relation == d.Row.Relation {
		t.Error("an equal relation message did not make a new relation")
	}
}

// Rows of relations with different numbers of columns may alternate, as root and leaf of a partitioned table do.
func TestRelationsAlternate(t *testing.T) {
	t.Parallel()
	narrow := decoder.Relation{ID: 2, Name: "n", Identity: 'd', Columns: outbox.Columns[:1]}
	d := after(t, append(opened(), pgo.Relation(narrow))...)
	for range 2 {
		for _, want := range []decoder.Row{{Relation: &outbox, Columns: row}, {Relation: &narrow, Columns: row[:1]}} {
			if _, err := d.Decode(pgo.Insert(want.Relation.ID, want.Columns...)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, d.Row); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	d := after(t, opened()...)
	d.Reset()
	if diff := cmp.Diff(decoder.New(), d, cmp.AllowUnexported(decoder.Decoder{})); diff != "" {
		t.Error(diff)
	}
	if _, err := d.Decode(pgo.Begin(begin)); err != nil {
		t.Errorf("begin on the new connection: %v", err)
	}
	if _, err := d.Decode(pgo.Insert(16385, row...)); err == nil {
		t.Error("the relation of the old connection is still known")
	}
}

// What Decode returns lies in the frame, and an append to it cannot reach the bytes behind.
func TestSlicesAreOfTheFrame(t *testing.T) {
	t.Parallel()
	d := after(t, opened()...)
	check := func(frame, slice []byte) {
		t.Helper()
		at := bytes.Index(frame, slice)
		if at < 0 || unsafe.SliceData(slice) != &frame[at] || cap(slice) != len(slice) {
			t.Errorf("%q: not a slice of the frame, or its capacity %d is not its length", slice, cap(slice))
		}
	}
	frame := pgo.Insert(16385, pgo.Text("one"), pgo.Text("two"), pgo.Text("three"))
	if _, err := d.Decode(frame); err != nil {
		t.Fatal(err)
	}
	for _, column := range d.Row.Columns {
		check(frame, column.Data)
	}
	frame = pgo.Message(decoder.Message{Prefix: []byte("prefix"), Content: []byte("content")})
	if _, err := d.Decode(frame); err != nil {
		t.Fatal(err)
	}
	check(frame, d.Message.Prefix)
	check(frame, d.Message.Content)
}

func TestKindNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, test := range validFrames() {
		name := test.kind.String()
		if !strings.HasPrefix(strings.TrimPrefix(test.name, "transactional "), name) && name != "message" {
			t.Errorf("%s: named %s", test.name, name)
		}
		seen[name] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d names, want 10", len(seen))
	}
}
