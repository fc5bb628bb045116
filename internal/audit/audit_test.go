package audit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// row is a row from "id key sequence", and record one from "id key position" at the next offset of its partition. Topics
// and partitions may be given behind them.
func rowOf(text string) Row {
	r := Row{Topic: "t"}
	if _, err := fmt.Sscan(text, &r.ID, &r.Key, &r.Sequence); err != nil {
		panic(err)
	}
	return r
}

func recordOf(offset int, text string) Record {
	r := Record{Topic: "t", Offset: int64(offset)}
	fields := strings.Fields(text)
	r.ID, r.Key = fields[0], fields[1]
	if fields[2] != "-" {
		r.Position = fields[2]
	}
	for _, field := range fields[3:] {
		if _, err := fmt.Sscanf(field, "%d", &r.Partition); err != nil {
			r.Topic = field
		}
	}
	return r
}

func TestCompare(t *testing.T) {
	t.Parallel()
	three := []string{"a1 A 1", "b1 B 1", "a2 A 2"}
	for _, c := range []struct {
		name          string
		rows, records []string
		want          string // findings that are not 0
	}{
		{"nothing at all", nil, nil, ""},
		{"all there, in order", three, []string{"a1 A p1", "b1 B p2", "a2 A p3"}, ""},
		{"order of different keys is free", three, []string{"b1 B p2", "a1 A p1", "a2 A p3"}, ""},

		{"a row without record is lost", three, []string{"a1 A p1", "b1 B p2"}, "lost 1"},
		{"a record in another topic is not the row's", three, []string{"a1 A p1", "b1 B p2 other", "a2 A p3"}, "lost 1 foreign 1"},
		{"a record with another key is not the row's", three, []string{"a1 A p1", "b1 A p2", "a2 A p3"}, "lost 1 foreign 1"},

		{"the same identity twice", three, []string{"a1 A p1", "b1 B p2", "b1 B p2", "a2 A p3"}, "duplicated 1"},
		{"three times are two too many", three, []string{"a1 A p1", "b1 B p2", "a2 A p3", "a2 A p3", "a2 A p3"}, "duplicated 2"},
		{"the same identity in two topics", three, []string{"a1 A p1", "b1 B p2", "a2 A p3", "a2 A p3 other"}, "duplicated 1 foreign 1"},
		{"without identity the id counts", three, []string{"a1 A -", "b1 B -", "b1 B -", "a2 A -"}, "duplicated 1"},
		{"one row under two identities", three, []string{"a1 A p1", "b1 B p2", "b1 B p9", "a2 A p3"}, "duplicated 1"},
		{"two rows under one identity", three, []string{"a1 A p1", "b1 B p1", "a2 A p3"}, "duplicated 1"},
		{"an id that was used twice on purpose", []string{"x A 1", "x A 2"}, []string{"x A p1", "x A p2"}, ""},
		{"one of these lost, the other twice", []string{"x A 1", "x A 2"}, []string{"x A p1", "x A p1"}, "lost 1 duplicated 1"},

		{"an earlier event of the key comes after a later one", three, []string{"a2 A p3", "b1 B p2", "a1 A p1"}, "reordered 1"},
		{"each that comes too late counts", []string{"a1 A 1", "a2 A 2", "a3 A 3"}, []string{"a3 A p3", "a1 A p1", "a2 A p2"}, "reordered 2"},
		{"a repetition is not a disorder", three, []string{"a1 A p1", "a2 A p3", "a1 A p1", "b1 B p2"}, "duplicated 1"},
		{"a first record behind a repetition still is", three, []string{"a2 A p3", "a2 A p3", "a1 A p1", "b1 B p2"}, "duplicated 1 reordered 1"},
		{"partitions have no common order", three, []string{"a2 A p3 1", "a1 A p1 2", "b1 B p2"}, ""},

		{"a record of no row", three, []string{"a1 A p1", "b1 B p2", "x B p7", "a2 A p3"}, "foreign 1"},
		{"the same twice", three, []string{"a1 A p1", "b1 B p2", "x B p7", "x B p7", "a2 A p3"}, "duplicated 1 foreign 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var rows []Row
			for _, text := range c.rows {
				rows = append(rows, rowOf(text))
			}
			var records []Record
			for i, text := range c.records {
				records = append(records, recordOf(i, text))
			}
			rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
			got := Compare(rows, records)
			if text := found(got); text != c.want {
				t.Errorf("found %q, want %q: %v", text, c.want, got)
			}
			if got.Inserted != len(rows) || got.Delivered != len(rows)-got.Lost.Count {
				t.Errorf("%v of %d rows", got, len(rows))
			}
		})
	}
}

// found are the findings of a report that are not 0.
func found(r Report) string {
	var texts []string
	for _, f := range []struct {
		name string
		Finding
	}{{"lost", r.Lost}, {"duplicated", r.Duplicated}, {"reordered", r.Reordered}, {"foreign", r.Foreign}} {
		if f.Count > 0 {
			texts = append(texts, fmt.Sprint(f.name, " ", f.Count))
		}
	}
	return strings.Join(texts, " ")
}

func TestReportNamesTheFirst(t *testing.T) {
	t.Parallel()
	var rows []Row
	for i := range 7 {
		rows = append(rows, Row{ID: fmt.Sprint("e", i), Topic: "orders", Key: "k"})
	}
	got := Compare(rows, []Record{{Topic: "orders", Partition: 2, Offset: 40, Position: "p"}}).String()
	want := `inserted 7, delivered 0, lost 7 (e0 of key "k" for orders; e1 of key "k" for orders; e2 of key "k" for orders; ` +
		`e3 of key "k" for orders; e4 of key "k" for orders; …), duplicated 0, reordered 0, foreign 1 (p in orders/2 at 40)`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompareCountsExactly takes a right log and spoils it: as many as were taken away are lost, as many as were repeated
// are duplicated, and of a key that was turned around all but the first are reordered.
func TestCompareCountsExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rows []Row
		var records []Record
		var want Report
		offset := int64(0)
		write := func(r Record) {
			r.Offset = offset
			records = append(records, r)
			offset++
		}
		for key := range rapid.IntRange(0, 5).Draw(t, "keys") {
			var log []Record
			for sequence := range rapid.IntRange(1, 6).Draw(t, "events") {
				row := Row{ID: fmt.Sprint(key, "-", sequence), Topic: "t", Key: fmt.Sprint(key), Sequence: int64(sequence)}
				rows = append(rows, row)
				if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
					want.Lost.Count++
					continue
				}
				log = append(log, Record{Topic: "t", Key: row.Key, ID: row.ID, Position: row.ID})
			}
			if len(log) > 1 && rapid.Bool().Draw(t, "turned") {
				for i := range log {
					write(log[len(log)-1-i])
				}
				want.Reordered.Count += len(log) - 1
			} else {
				for _, r := range log {
					write(r)
				}
			}
			for _, r := range log {
				if rapid.IntRange(0, 9).Draw(t, "repeated") == 0 {
					write(r)
					want.Duplicated.Count++
				}
			}
		}
		if got := Compare(rows, records); found(got) != found(want) || got.Delivered != len(rows)-want.Lost.Count {
			t.Fatalf("%v, want %q", got, found(want))
		}
	})
}
