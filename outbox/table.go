package outbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// written are the columns that are written, in the order of row.
func (c Columns) written() []string {
	var names []string
	for _, name := range []string{c.ID, c.AggregateType, c.AggregateID, c.Type, c.Payload, c.Headers, c.TraceParent} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (c Columns) check() error {
	if c.AggregateType == "" || c.AggregateID == "" || c.Payload == "" {
		return errors.New("outbox: Columns needs AggregateType, AggregateID and Payload; leave it out altogether for Debezium's names")
	}
	seen := map[string]bool{}
	for _, name := range c.written() {
		if !identifier(name) {
			return fmt.Errorf("outbox: column %q: a name has 1 to 63 bytes of UTF-8 without zero bytes", name)
		}
		if seen[name] {
			return fmt.Errorf("outbox: column %q stands for two things", name)
		}
		seen[name] = true
	}
	return nil
}

func (c Columns) row(ctx context.Context, e Event) ([]any, error) {
	payload, err := e.payload()
	if err != nil {
		return nil, err
	}
	var row []any
	switch {
	case c.ID == "" && e.ID != "":
		return nil, errors.New("an ID, but no Columns.ID: the database makes the id")
	case c.ID != "" && e.ID == "":
		row = append(row, NewID())
	case c.ID != "":
		row = append(row, e.ID)
	}
	row = append(row, e.AggregateType, e.AggregateID)
	if c.Type != "" {
		row = append(row, e.Type)
	}
	row = append(row, payload)
	switch {
	case c.Headers == "" && len(e.Headers) > 0:
		return nil, errors.New("there are Headers, but the table has no column for them: add one (jsonb) and name it in Columns.Headers " +
			"and in the relay's setting columns.headers")
	case c.Headers != "":
		row = append(row, headersJSON(e.Headers))
	}
	if c.TraceParent != "" {
		row = append(row, orNull(traceParent(ctx)))
	}
	return row, nil
}

// insert is one statement for all rows. Postgres inserts them, and so logs them, in the order of the list.
func (c Columns) insert(table string, rows [][]any) (string, []any) {
	var b strings.Builder
	schema, name, _ := strings.Cut(table, ".")
	fmt.Fprintf(&b, "INSERT INTO %s (", pgx.Identifier{schema, name}.Sanitize())
	for i, column := range c.written() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(pgx.Identifier{column}.Sanitize())
	}
	b.WriteString(") VALUES ")
	var args []any
	for i, row := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		for j, value := range row {
			b.WriteString([]string{"(", ", "}[min(j, 1)])
			args = append(args, value)
			b.WriteString("$" + strconv.Itoa(len(args)))
		}
		b.WriteString(")")
	}
	return b.String(), args
}

// headersJSON is nil without headers.
func headersJSON(headers map[string]string) any {
	if len(headers) == 0 {
		return nil
	}
	text, err := marshal(headers)
	if err != nil {
		panic(err) // strings never fail
	}
	return string(text)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
