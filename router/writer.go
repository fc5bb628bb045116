package router

import (
	"bytes"
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
		if schemas {
			w.head, w.tail = `{"schema":`+c.typ.schema.json(!c.notNull)+`},"payload":`, `}`
		}
		w.null = []byte(w.head + "null" + w.tail)
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

// valueWriter writes the payload.
type valueWriter struct {
	writer
	expand    bool
	checked   bool // Postgres has validated the JSON
	tombstone bool // an empty payload makes a null value
	envelope  *envelopeWriter
}

func (w *valueWriter) write(row *decoder.Row, routed []byte, m *Message) ([]byte, error) {
	text, null, err := w.data(row)
	if err != nil {
		return nil, err
	}
	if w.tombstone && (null || w.blank(text)) {
		return nil, nil
	}
	if w.envelope != nil {
		return w.envelope.write(w, row, routed, m)
	}
	if !null && w.expand && isDocument(text, w.checked) {
		start := len(m.scratch)
		m.scratch = appendCompact(m.scratch, text)
		return m.rendered(start), nil
	}
	return w.writer.write(row, m)
}

// blank tells whether a string is empty after Java's trim, which removes everything up to U+0020.
func (w *valueWriter) blank(text []byte) bool {
	switch w.typ.kind {
	case kindText:
		return len(bytes.TrimLeftFunc(text, func(r rune) bool { return r <= ' ' })) == 0
	case kindBase64, kindBase64URL, kindHex:
		return len(text) == len(`\x`)
	}
	return false
}

// envelopeWriter writes {"payload":…,"alias":…}.
type envelopeWriter struct {
	members []envelopeMember
	schema  *envelopeSchema // nil without schemas
}

type envelopeMember struct {
	writer
	key string // `,"alias":`
}

func (e *envelopeWriter) write(w *valueWriter, row *decoder.Row, routed []byte, m *Message) ([]byte, error) {
	start := len(m.scratch)
	if e.schema != nil {
		if err := e.schema.write(row, routed, m); err != nil {
			return nil, err
		}
	}
	m.scratch = append(m.scratch, `{"payload":`...)
	if err := w.member(row, m); err != nil {
		return nil, err
	}
	for i := range e.members {
		member := &e.members[i]
		m.scratch = append(m.scratch, member.key...)
		if err := member.member(row, m); err != nil {
			return nil, err
		}
	}
	m.scratch = append(m.scratch, '}')
	if e.schema != nil {
		m.scratch = append(m.scratch, '}')
	}
	return m.rendered(start), nil
}

// member appends the column as a JSON value, null included.
func (w *writer) member(row *decoder.Row, m *Message) error {
	text, null, err := w.data(row)
	if err != nil {
		return err
	}
	if null {
		m.scratch = append(m.scratch, "null"...)
		return nil
	}
	return w.render(text, m)
}

// member appends the payload, expanded where it is to be.
func (w *valueWriter) member(row *decoder.Row, m *Message) error {
	text, null, err := w.data(row)
	if err == nil && !null && w.expand && isDocument(text, w.checked) {
		m.scratch = appendCompact(m.scratch, text)
		return nil
	}
	return w.writer.member(row, m)
}

// envelopeSchema writes the schema of an envelope. Its name holds the routed value, its version a column's value.
type envelopeSchema struct {
	head    string // up to the name's prefix
	version *writer
}

func newEnvelopeSchema(payload column, members []column, aliases []string, prefix string) *envelopeSchema {
	head := `{"schema":{"type":"struct","fields":[` + payload.typ.schema.json(!payload.notNull) + `,"field":"payload"}`
	for i, c := range members {
		head += `,` + c.typ.schema.json(!c.notNull) + `,"field":` + string(appendJSONString(nil, aliases[i])) + `}`
	}
	return &envelopeSchema{head: head + `],"optional":false,"name":"` + string(appendJSONEscaped(nil, prefix))}
}

func (e *envelopeSchema) write(row *decoder.Row, routed []byte, m *Message) error {
	m.scratch = append(m.scratch, e.head...)
	m.scratch = appendJSONEscaped(m.scratch, routed)
	m.scratch = append(m.scratch, `.Value"`...)
	if e.version != nil {
		text, null, err := e.version.data(row)
		if err != nil {
			return err
		}
		if !null {
			m.scratch = append(append(m.scratch, `,"version":`...), text...)
		}
	}
	m.scratch = append(m.scratch, `},"payload":`...)
	return nil
}
