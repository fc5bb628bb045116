package router

import (
	"errors"

	"github.com/walrelay/walrelay/decoder"
)

// writer writes one column in one style.
type writer struct {
	index  int // of the column in the row
	name   string
	typ    columnType
	style  style
	direct bool   // the bytes that Postgres sent go out uncopied
	head   string // around a JSON value with its schema
	tail   string
	null   []byte // what NULL is; nil but in JSON
}

// newWriter makes the writer of a column. With schemas, JSON is wrapped in Connect's schema and payload.
func newWriter(c column, s style, schemas bool) writer {
	w := writer{index: c.index, name: c.name, typ: c.typ, style: s, direct: s != styleJSON && c.typ.verbatim()}
	if s == styleJSON {
		null := "null"
		if schemas {
			w.head, w.tail = `{"schema":`+c.typ.schema.json(!c.notNull)+`},"payload":`, `}`
			null = `{"schema":` + c.typ.schema.json(true) + `},"payload":null}` // whatever the catalog says by now
		}
		w.null = []byte(null)
	}
	return w
}

var errNotText = errors.New("is not in text format: the stream was started with another option, or the row is not an insert")

// data returns the text of the column, and whether it is NULL.
func (w *writer) data(row *decoder.Row) (text []byte, null bool, err error) {
	c := &row.Columns[w.index]
	switch c.Kind {
	case decoder.ColumnText:
		return c.Data, false, nil
	case decoder.ColumnNull:
		return nil, true, nil
	}
	return nil, false, &columnError{column: w.name, cause: errNotText}
}

// columnError is not a PoisonError: it is about the stream, not about the row.
type columnError struct {
	column string
	cause  error
}

func (e *columnError) Error() string { return "column " + e.column + " " + e.cause.Error() }
func (e *columnError) Unwrap() error { return e.cause }

// write returns the value of the column in row, rendered into the scratch buffer of m where needed. An empty value is
// not nil.
func (w *writer) write(row *decoder.Row, m *Message) ([]byte, error) {
	text, null, err := w.data(row)
	switch {
	case err != nil:
		return nil, err
	case null:
		return w.null, nil
	case w.direct:
		return notNil(text), nil
	}
	start := len(m.scratch)
	if err := w.render(text, m); err != nil {
		return nil, err
	}
	return notNil(m.rendered(start)), nil
}

// render appends a value that is not NULL to the scratch buffer.
func (w *writer) render(text []byte, m *Message) error {
	m.scratch = append(m.scratch, w.head...)
	scratch, err := w.typ.append(m.scratch, text, w.style, false)
	m.scratch = append(scratch, w.tail...)
	return inColumn(w.name, err)
}

// inColumn names the column in a PoisonError.
func inColumn(name string, err error) error {
	if p, ok := err.(*PoisonError); ok {
		return poison("column %s: %s", name, p.Reason)
	}
	return err
}

var empty = []byte{}

func notNil(b []byte) []byte {
	if b == nil {
		return empty
	}
	return b
}
