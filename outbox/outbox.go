package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Outbox says where events are written. The zero Outbox is the table public.outbox with Debezium's column names, as
// walrelay init creates it.
type Outbox struct {
	// Table is schema.table exactly as Postgres has it stored, without quotes. Default "public.outbox".
	Table string
	// Columns of the table. The zero value means Debezium's: id, aggregatetype, aggregateid, type, payload.
	Columns Columns
	// Prefix writes events as messages into the log, without a table; it must be the one that the relay's setting
	// messages has. Table and Columns must be empty then. A payload must be JSON.
	Prefix string
}

// Columns are the names of an outbox table's columns. What is empty is not written, so that the column's default
// applies; only AggregateType, AggregateID and Payload are always needed.
type Columns struct {
	ID, AggregateType, AggregateID, Type, Payload string
	// Headers is a json or jsonb column for Event.Headers; the relay must know it (columns.headers).
	Headers string
	// TraceParent is a text column for what WithTraceParent has; the relay must know it (columns.traceparent).
	TraceParent string
}

var (
	debezium = Columns{ID: "id", AggregateType: "aggregatetype", AggregateID: "aggregateid", Type: "type", Payload: "payload"}

	// SnakeCase are the column names that most courses and libraries use; the relay recognises them.
	SnakeCase = Columns{ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Type: "event_type", Payload: "payload"}
)

// Insert writes events into the zero Outbox. See Outbox.Insert.
func Insert(ctx context.Context, tx Tx, events ...Event) error {
	return Outbox{}.Insert(ctx, tx, events...)
}

// Insert writes events in tx, in the given order, which is the order in which their keys' consumers get them. It checks all
// of them before it writes the first. After an error of the database the transaction is of no use any more.
func (o Outbox) Insert(ctx context.Context, tx Tx, events ...Event) error {
	o, err := o.resolved()
	if err != nil {
		return err
	}
	rows, err := o.rows(ctx, events)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n := portion(len(rows))
		statement, args := o.statement(rows[:n])
		if _, err := tx.Exec(ctx, statement, args...); err != nil {
			return fmt.Errorf("outbox: insert %d events into %s: %w", len(events), o.target(), err)
		}
		rows = rows[n:]
	}
	return nil
}

// portion is how many rows the next statement takes: a power of two up to 512, so that there are few different statements
// to prepare, none with more than 65,535 parameters.
func portion(rows int) int {
	n := 512
	for n > rows {
		n /= 2
	}
	return n
}

// rows are the arguments of each event's part of a statement.
func (o Outbox) rows(ctx context.Context, events []Event) ([][]any, error) {
	rows := make([][]any, len(events))
	for i := range events {
		row, err := o.row(ctx, events[i])
		if err != nil {
			return nil, fmt.Errorf("outbox: event %d of %d: %w", i+1, len(events), err)
		}
		rows[i] = row
	}
	return rows, nil
}

func (o Outbox) row(ctx context.Context, e Event) ([]any, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	if o.Prefix != "" {
		return o.message(ctx, e)
	}
	return o.Columns.row(ctx, e)
}

func (o Outbox) statement(rows [][]any) (string, []any) {
	if o.Prefix != "" {
		return emit(rows)
	}
	return o.Columns.insert(o.Table, rows)
}

func (o Outbox) target() string {
	if o.Prefix != "" {
		return "the log under the prefix " + o.Prefix
	}
	return o.Table
}

// resolved fills in the defaults and checks the names.
func (o Outbox) resolved() (Outbox, error) {
	if o.Prefix != "" {
		if o.Table != "" || o.Columns != (Columns{}) {
			return o, errors.New("outbox: Prefix is for messages without a table: leave Table and Columns empty")
		}
		if !storable(o.Prefix) {
			return o, fmt.Errorf("outbox: prefix %q must be UTF-8 without zero bytes", o.Prefix)
		}
		return o, nil
	}
	if o.Table == "" {
		o.Table = "public.outbox"
	}
	if o.Columns == (Columns{}) {
		o.Columns = debezium
	}
	schema, table, ok := strings.Cut(o.Table, ".")
	if !ok || !identifier(schema) || !identifier(table) || strings.HasPrefix(o.Table, `"`) {
		return o, fmt.Errorf("outbox: table %q: write schema.table exactly as they are stored, without quotes, such as public.outbox", o.Table)
	}
	return o, o.Columns.check()
}

// identifier tells whether Postgres stores such a name as it is: longer ones are cut.
func identifier(name string) bool {
	const longest = 63 // bytes
	return name != "" && len(name) <= longest && storable(name)
}
