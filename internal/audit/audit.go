package audit

import (
	"cmp"
	"fmt"
	"slices"
)

// Row is a committed outbox row: an event that must be in a topic.
type Row struct {
	// ID is the event's id, the header id of its record. Several rows may have the same one.
	ID string
	// Topic and Key are those that the record must have.
	Topic, Key string
	// Sequence rises, in commit order, among the rows of one key in one topic.
	Sequence int64
}

// Record is one record of a topic's log.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       string
	// ID and Position are the headers id and walrelay.lsn; empty where the record has none.
	ID, Position string
}

func (r Record) String() string {
	return fmt.Sprintf("%s in %s/%d at %d", cmp.Or(r.ID, r.Position, "without id"), r.Topic, r.Partition, r.Offset)
}

// Report is the result of an audit.
type Report struct {
	// Inserted are the rows, Delivered those that have a record with their id, topic and key.
	Inserted, Delivered int
	// Lost are the rows without a record.
	Lost Finding
	// Duplicated are the records of an event that stands before them in the log: the position is one that an earlier
	// record has, or every row of that id has its record already.
	Duplicated Finding
	// Reordered are the first records of an event that stand after one of a later event of their key, in one partition.
	Reordered Finding
	// Foreign are the records that belong to no row: it was rolled back, deleted, or never there.
	Foreign Finding
}

// String is the report in one line.
func (r Report) String() string {
	return fmt.Sprintf("inserted %d, delivered %d, lost %v, duplicated %v, reordered %v, foreign %v",
		r.Inserted, r.Delivered, r.Lost, r.Duplicated, r.Reordered, r.Foreign)
}

// Finding is a number of rows or records, and the first few of them.
type Finding struct {
	Count    int
	Examples []string
}

// maxExamples bounds the examples of a finding.
const maxExamples = 5

// String is the number, with the examples behind it.
func (f Finding) String() string {
	text := fmt.Sprint(f.Count)
	for i, example := range f.Examples {
		text += []string{" (", "; "}[min(i, 1)] + example
	}
	if f.Count > len(f.Examples) {
		text += "; …"
	}
	if len(f.Examples) > 0 {
		text += ")"
	}
	return text
}

func (f *Finding) add(example fmt.Stringer) {
	f.Count++
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, example.String())
	}
}

// String names the row.
func (r Row) String() string { return fmt.Sprintf("%s of key %q for %s", r.ID, r.Key, r.Topic) }

// Compare audits records, in any order, against rows. Rows that share an id must be given in commit order.
func Compare(rows []Row, records []Record) Report {
	l := ledger{
		report:  Report{Inserted: len(rows)},
		rows:    rows,
		waiting: make(map[event][]int, len(rows)),
		seen:    make(map[string]event, len(records)),
		newest:  make(map[line]int64),
	}
	for i, row := range rows {
		e := event{row.Topic, row.Key, row.ID}
		l.waiting[e] = append(l.waiting[e], i)
	}
	for _, record := range slices.SortedFunc(slices.Values(records), inLogOrder) {
		l.record(record)
	}
	for i, row := range rows {
		if slices.Contains(l.waiting[event{row.Topic, row.Key, row.ID}], i) {
			l.report.Lost.add(row)
		}
	}
	return l.report
}

func inLogOrder(a, b Record) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

// event is what a row and its record have in common.
type event struct{ topic, key, id string }

// line is where order counts.
type line struct {
	topic     string
	partition int32
	key       string
}

// ledger is the state of a comparison.
type ledger struct {
	report  Report
	rows    []Row
	waiting map[event][]int  // the rows, by number, that have no record yet; an entry stays when all have
	seen    map[string]event // by position
	newest  map[line]int64   // sequence
}

// record takes the next record of a partition.
func (l *ledger) record(r Record) {
	e := event{r.Topic, r.Key, r.ID}
	waiting, known := l.waiting[e]
	before, repeated := l.seen[r.Position]
	if r.Position != "" {
		l.seen[r.Position] = e
	}
	if repeated || known && len(waiting) == 0 {
		l.report.Duplicated.add(r)
	}
	switch {
	case repeated && before == e: // takes no other row of the same id
	case !known:
		l.report.Foreign.add(r)
	case len(waiting) > 0:
		l.waiting[e] = waiting[1:]
		l.report.Delivered++
		l.order(r, l.rows[waiting[0]].Sequence)
	}
}

func (l *ledger) order(r Record, sequence int64) {
	where := line{r.Topic, r.Partition, r.Key}
	newest, later := l.newest[where]
	if later && sequence < newest {
		l.report.Reordered.add(r)
		return
	}
	l.newest[where] = sequence
}
