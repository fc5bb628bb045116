package prune

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/walrelay/walrelay/fault"
)

// Options say what to delete and what becomes of it.
type Options struct {
	// Slot is the relay's slot, whose horizon counts. Those of other slots of the database count too while they exist.
	Slot string
	// Tables are the outbox tables, schema.table.
	Tables []string
	// OlderThan is the least age of what is deleted, by Column. 0: everything that is surely in Kafka; rows only.
	OlderThan time.Duration
	// Column has the time of a row. Default "created_at".
	Column string
	// Batch is about how many rows one transaction deletes. 1 to 100,000, default 1000.
	Batch int
	// ArchiveTable (schema.table) gets the rows that are deleted, in the same transaction. It needs the outbox's columns in
	// the same order. Rows only, not partitions.
	ArchiveTable string
	// ArchiveFile gets each row as a line of JSON, before the deletion is committed, so that a crash may leave a row in both
	// places, never in none. It is synchronised where it can be. Rows only.
	ArchiveFile io.Writer
	// Partitions is the width of the partitions to create ahead, by Column: "day", "week" or "month". Empty: none.
	Partitions string
	// Ahead is how many of them reach into the future. 1 to 366, default 14.
	Ahead int
	// DryRun only counts.
	DryRun bool
	// Report is told of each table. May be nil.
	Report func(Table)
}

// Table is what was done with one table, or with DryRun would be.
type Table struct {
	Name string
	// Deleted are rows.
	Deleted int64
	// Dropped and Created are partitions.
	Dropped, Created []string
	// Busy are partitions that are old enough and have rows that may not be in Kafka yet.
	Busy []string
}

func (o Options) resolved() (Options, error) {
	if o.Column == "" {
		o.Column = "created_at"
	}
	if o.Batch == 0 {
		o.Batch = 1000
	}
	if o.Ahead == 0 {
		o.Ahead = 14
	}
	if o.Report == nil {
		o.Report = func(Table) {}
	}
	var problems []error
	for wrong, is := range map[string]bool{
		"no tables": len(o.Tables) == 0,
		fmt.Sprintf("batch %d: want 1 to 100,000", o.Batch):                               o.Batch < 1 || o.Batch > 100_000,
		fmt.Sprintf("older than %v: want 0 or more", o.OlderThan):                         o.OlderThan < 0,
		fmt.Sprintf("partitions %q: want day, week or month", o.Partitions):               !strings.Contains(" day week month", " "+o.Partitions),
		fmt.Sprintf("%d partitions ahead: want 1 to 366", o.Ahead):                        o.Ahead < 1 || o.Ahead > 366,
		"archive to a table or to a file, not both":                                       o.ArchiveTable != "" && o.ArchiveFile != nil,
		"partitions that are dropped are not archived: copy them before, or archive rows": o.Partitions != "" && o.archives(),
	} {
		if is {
			problems = append(problems, errors.New(wrong))
		}
	}
	return o, errors.Join(problems...)
}

// Check reports what is wrong with the options, without any I/O.
func (o Options) Check() error {
	_, err := o.resolved()
	return err
}

func (o Options) archives() bool { return o.ArchiveTable != "" || o.ArchiveFile != nil }

// RefusedError says that nothing can be deleted, and what to do.
type RefusedError struct{ Problem, Remedy string }

func (e *RefusedError) Error() string { return e.Problem + "; " + e.Remedy }

// FaultCode is the kind of the error.
func (e *RefusedError) FaultCode() fault.Code { return fault.Prune }
