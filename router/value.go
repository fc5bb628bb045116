package router

import (
	"bytes"

	"github.com/walrelay/walrelay/decoder"
)

// valueWriter writes the payload.
type valueWriter struct {
	writer
	expand    bool
	checked   bool // Postgres has validated the JSON
	infers    bool // expanded documents get a schema
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
	isDocument, schema := w.document(text)
	switch {
	case w.envelope != nil:
		return w.envelope.write(w, row, routed, isDocument, schema, m)
	case !isDocument:
		return w.writer.write(row, m)
	}
	start := len(m.scratch)
	if w.infers {
		m.scratch = append(schema.append(append(m.scratch, `{"schema":`...)), `},"payload":`...)
	}
	m.scratch = appendCompact(m.scratch, text)
	if w.infers {
		m.scratch = append(m.scratch, '}')
	}
	return m.rendered(start), nil
}

// document tells whether the payload goes out as JSON of its own, and its schema where there is to be one.
func (w *valueWriter) document(text []byte) (bool, *inferred) {
	if !w.expand || !isDocument(text, w.checked) {
		return false, nil
	}
	if !w.infers {
		return true, nil
	}
	schema, ok := infer(w.name, text, 0)
	return ok && schema != nil, schema
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

func (e *envelopeWriter) write(
	w *valueWriter, row *decoder.Row, routed []byte, isDocument bool, schema *inferred, m *Message,
) ([]byte, error) {
	start := len(m.scratch)
	if e.schema != nil {
		if err := e.schema.write(row, routed, schema, m); err != nil {
			return nil, err
		}
	}
	m.scratch = append(m.scratch, `{"payload":`...)
	if err := w.member(row, isDocument, m); err != nil {
		return nil, err
	}
	for i := range e.members {
		member := &e.members[i]
		m.scratch = append(m.scratch, member.key...)
		if err := member.member(row, false, m); err != nil {
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
func (w *writer) member(row *decoder.Row, isDocument bool, m *Message) error {
	text, null, err := w.data(row)
	switch {
	case err != nil:
		return err
	case null:
		m.scratch = append(m.scratch, "null"...)
		return nil
	case isDocument:
		m.scratch = appendCompact(m.scratch, text)
		return nil
	}
	return w.render(text, m)
}

// envelopeSchema writes the schema of an envelope. Its name holds the routed value, its version a column's value.
type envelopeSchema struct {
	strict, loose memberSchemas
	notNull       []int // columns that the catalog says are never NULL
	version       *writer
}

// memberSchemas are the schemas of an envelope's members: strict as the catalog has them, loose where all may be null.
type memberSchemas struct {
	payload string // where none is inferred, less the closing brace
	rest    string // from the payload's name up to the prefix of the schema's name
}

func newEnvelopeSchema(payload column, members []column, aliases []string, prefix string) *envelopeSchema {
	e := &envelopeSchema{}
	for _, c := range append([]column{payload}, members...) {
		if c.notNull {
			e.notNull = append(e.notNull, c.index)
		}
	}
	e.strict = newMemberSchemas(payload, members, aliases, prefix, false)
	e.loose = newMemberSchemas(payload, members, aliases, prefix, true)
	return e
}

func newMemberSchemas(payload column, members []column, aliases []string, prefix string, loose bool) memberSchemas {
	rest := `,"field":"payload"}`
	for i, c := range members {
		rest += `,` + c.typ.schema.json(loose || !c.notNull) + `,"field":` + string(appendJSONString(nil, aliases[i])) + `}`
	}
	return memberSchemas{
		payload: payload.typ.schema.json(loose || !payload.notNull),
		rest:    rest + `],"optional":false,"name":"` + string(appendJSONEscaped(nil, prefix)),
	}
}

// schemas chooses by the row: a column may have become NOT NULL after it was written.
func (e *envelopeSchema) schemas(row *decoder.Row) *memberSchemas {
	for _, i := range e.notNull {
		if row.Columns[i].Kind == decoder.ColumnNull {
			return &e.loose
		}
	}
	return &e.strict
}

func (e *envelopeSchema) write(row *decoder.Row, routed []byte, schema *inferred, m *Message) error {
	schemas := e.schemas(row)
	m.scratch = append(m.scratch, `{"schema":{"type":"struct","fields":[`...)
	if schema != nil {
		m.scratch = schema.append(m.scratch)
	} else {
		m.scratch = append(m.scratch, schemas.payload...)
	}
	m.scratch = append(m.scratch, schemas.rest...)
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
