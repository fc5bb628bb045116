package audit

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/router"
)

// Report is the result of a comparison.
type Report struct {
	// Rows were compared, Found of them have a record.
	Rows  int64 `json:"rows"`
	Found int64 `json:"found"`
	// Records of the topics were looked at.
	Records int64 `json:"records"`
	// Missing are the rows that have none; Missing fills in the examples.
	Missing Finding `json:"missing"`
	// Buried are rows that have a record in the dead-letter topic, and Unpublishable those that no record can be made of.
	// They are not among the missing.
	Buried        int64   `json:"dead_letters"`
	Unpublishable Finding `json:"unpublishable"`
	// Duplicated are records of an event that stands before them in the log.
	Duplicated Finding `json:"duplicated"`
	// Replayed are records that a replay has put behind an earlier one of their event, on purpose.
	Replayed int64 `json:"replayed"`
	// OutOfOrder are first records of an event that stand behind one of a later event of their key. Where records have no
	// walrelay.lsn nothing is known of their order.
	OutOfOrder Finding `json:"out_of_order"`
	// Foreign are records of the topics without a row: it was deleted, rolled back, or never there. They are judged
	// where all rows, or those of a range of ids, were compared.
	Foreign Finding `json:"foreign"`
	// Provable tells that there is no sign of deleted rows: each record of the time that was compared has its row, and
	// there are rows at all. Where it is false, rows may have been missing and deleted before anybody looked.
	Provable bool `json:"provable"`
}

// Finding is a number of rows or records, and the first few of them.
type Finding struct {
	Count    int64    `json:"count"`
	Examples []string `json:"examples,omitempty"`
}

// maxExamples bounds the examples of a finding.
const maxExamples = 10

func (f *Finding) add(example string) {
	f.Count++
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, example)
	}
}

// Report is what is known so far.
func (a *Audit) Report() Report {
	r := a.report
	r.Rows, r.Records = a.ledger.loaded, a.ledger.records
	r.Missing.Count += a.ledger.missing() // those that were not listed
	r.Found = r.Rows - r.Missing.Count - r.Buried - r.Unpublishable.Count
	r.Provable = a.ledger.vanished == 0 && (a.older || a.ledger.loaded > 0)
	return r
}

// describe names a record.
func describe(r *kafka.Record) string {
	id := cmp.Or(clip(eventID(r)), "without id")
	return fmt.Sprintf("id %s (key %s) in topic %s partition %d at offset %d", id, shown(r.Key), r.Topic, r.Partition, r.Offset)
}

// Row names a row that has no record.
type Row struct {
	Table string
	// ID, Key and Topic are those of the record that it should have.
	ID, Key, Topic string
	// Time is when it was committed or created; zero: not known.
	Time time.Time
	// Stale: its topic has a newer event of its key.
	Stale bool
}

// String is the row in one line.
func (r Row) String() string {
	text := fmt.Sprintf("%s id %s (key %s, topic %s", r.Table, r.ID, r.Key, r.Topic)
	if !r.Time.IsZero() {
		text += ", " + r.Time.UTC().Format(time.RFC3339)
	}
	return text + ")"
}

// shownMessage names a message that is not in its topic.
func shownMessage(m *router.Message) string {
	return fmt.Sprintf("id %s (key %s, topic %s)", clip(messageID(m)), shown(m.Key), m.Topic)
}

// shown is a key for a message; null is not the same as empty.
func shown(key []byte) string {
	if key == nil {
		return "null"
	}
	return clip(key)
}

// clip shortens what comes from a row. What is not plain text is quoted.
func clip(text []byte) string {
	const most = 64
	s := string(text[:min(len(text), most)])
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		s = quoted
	}
	if len(text) > most {
		s += "…"
	}
	return s
}
