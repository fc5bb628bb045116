package decoder_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pglogrepl"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden from testdata/*.frames")

// captured are the PostgreSQL versions whose streams lie in testdata.
var captured = []string{"14", "15", "16", "17", "18"}

// readFrames reads what TestCapture wrote: each frame behind its length (Int32).
func readFrames(t testing.TB, version string) [][]byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", version+".frames"))
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for len(file) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(file))
		frames = append(frames, file[4:n:n])
		file = file[n:]
	}
	return frames
}

// join is the reverse of readFrames.
func join(frames [][]byte) []byte {
	var file []byte
	for _, frame := range frames {
		file = append(binary.BigEndian.AppendUint32(file, uint32(len(frame))), frame...)
	}
	return file
}

// The stream of each server version, decoded, is the text that a person has read.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, version := range captured {
		var got strings.Builder
		d := decoder.New()
		for i, frame := range readFrames(t, version) {
			kind, err := d.Decode(frame)
			if err != nil {
				t.Fatalf("PostgreSQL %s, frame %d: %v", version, i, err)
			}
			fmt.Fprintln(&got, describe(d, kind))
		}
		path := filepath.Join("testdata", version+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: -want +got\n%s", path, diff)
		}
	}
}

// describe is one line about what was decoded last.
func describe(d *decoder.Decoder, kind decoder.Kind) string {
	at := func(micros int64) string { return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000") }
	switch kind {
	case decoder.KindBegin:
		return fmt.Sprintf("begin %v at %s xid %d", d.Begin.Commit, at(d.Begin.Time), d.Begin.XID)
	case decoder.KindCommit:
		return fmt.Sprintf("commit %v end %v at %s", d.Commit.Start, d.Commit.End, at(d.Commit.Time))
	case decoder.KindRelation:
		r := d.Relation
		text := fmt.Sprintf("relation %d %q.%q identity %c", r.ID, r.Namespace, r.Name, r.Identity)
		for _, column := range r.Columns {
			key := ""
			if column.Key {
				key = " key"
			}
			text += fmt.Sprintf(", %q %d %d%s", column.Name, column.Type, column.Modifier, key)
		}
		return text
	case decoder.KindInsert:
		text := fmt.Sprintf("insert %q", d.Row.Relation.Name)
		for i, column := range d.Row.Columns {
			text += fmt.Sprintf(", %s=%c%s", d.Row.Relation.Columns[i].Name, column.Kind, short(column.Data))
		}
		return text
	case decoder.KindMessage:
		m := d.Message
		return fmt.Sprintf("message transactional %t at %v prefix %q content %q",
			m.Transactional, lsn.Start(m.LSN), m.Prefix, m.Content)
	}
	return kind.String()
}

func short(data []byte) string {
	switch {
	case data == nil:
		return ""
	case len(data) > 80:
		return fmt.Sprintf("%.40q... %d bytes", data, len(data))
	}
	return fmt.Sprintf("%q", data)
}

// pglogrepl reads the same out of the same frames.
func TestAgreesWithPglogrepl(t *testing.T) {
	t.Parallel()
	for _, version := range captured {
		d := decoder.New()
		kinds := make(map[decoder.Kind]int)
		for i, frame := range readFrames(t, version) {
			kind, err := d.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			kinds[kind]++
			theirs, err := pglogrepl.Parse(frame)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(translate(theirs), content(d, kind)); diff != "" {
				t.Errorf("PostgreSQL %s, frame %d: -pglogrepl +decoder\n%s", version, i, diff)
			}
		}
		if len(kinds) != 10 {
			t.Errorf("PostgreSQL %s: the stream has %v, not all ten message types", version, kinds)
		}
	}
}

// content is what was decoded last; the kind alone where content is not kept.
func content(d *decoder.Decoder, kind decoder.Kind) any {
	switch kind {
	case decoder.KindBegin:
		return d.Begin
	case decoder.KindCommit:
		return d.Commit
	case decoder.KindRelation:
		return *d.Relation
	case decoder.KindInsert:
		return insert{d.Row.Relation.ID, d.Row.Columns}
	case decoder.KindMessage:
		return d.Message
	}
	return kind
}

// insert is what an INSERT frame holds by itself.
type insert struct {
	Relation uint32
	Columns  []decoder.Column
}

func translate(m pglogrepl.Message) any {
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		return decoder.Begin{Commit: lsn.Start(m.FinalLSN), Time: m.CommitTime.UnixMicro(), XID: m.Xid}
	case *pglogrepl.CommitMessage:
		return decoder.Commit{
			Start: lsn.Start(m.CommitLSN), End: lsn.End(m.TransactionEndLSN), Time: m.CommitTime.UnixMicro(),
		}
	case *pglogrepl.RelationMessage:
		r := decoder.Relation{
			ID: m.RelationID, Namespace: m.Namespace, Name: m.RelationName, Identity: m.ReplicaIdentity,
		}
		for _, column := range m.Columns {
			r.Columns = append(r.Columns, decoder.RelationColumn{
				Name: column.Name, Type: column.DataType, Modifier: column.TypeModifier, Key: column.Flags == 1,
			})
		}
		return r
	case *pglogrepl.InsertMessage:
		row := insert{Relation: m.RelationID}
		for _, column := range m.Tuple.Columns {
			row.Columns = append(row.Columns, decoder.Column{Kind: column.DataType, Data: column.Data})
		}
		return row
	case *pglogrepl.LogicalDecodingMessage:
		return decoder.Message{
			Transactional: m.Transactional, LSN: uint64(m.LSN), Prefix: []byte(m.Prefix), Content: m.Content,
		}
	}
	return decoder.Kind(m.Type())
}
