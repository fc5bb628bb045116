package router

import (
	"time"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

// headerWriter writes the headers of a record: id, the placed columns, the headers column, tracing, position.
type headerWriter struct {
	idName    string
	id        writer
	placed    []placedHeader
	omitNulls bool
	column    *writer       // of JSON objects with headers
	parent    *writer       // traceparent
	context   *writer       // Java Properties
	position  *positionText // nil: no position header
	names     nameCache
}

type placedHeader struct {
	name string
	writer
}

func (h *headerWriter) write(row *decoder.Row, id lsn.Identity, m *Message) error {
	value, err := h.id.write(row, m)
	if err != nil {
		return err
	}
	m.header(h.idName, value)
	for i := range h.placed {
		p := &h.placed[i]
		value, err := p.write(row, m)
		if err != nil {
			return err
		}
		if value != nil || !h.omitNulls {
			m.header(p.name, value)
		}
	}
	if err := h.writeOptional(row, m); err != nil {
		return err
	}
	if m.Late {
		start := len(m.scratch)
		m.scratch = time.UnixMicro(id.Time).UTC().AppendFormat(m.scratch, TimeFormat)
		m.header(HeaderTime, m.rendered(start))
	}
	if h.position != nil {
		start := len(m.scratch)
		m.scratch = h.position.append(m.scratch, id)
		m.header(HeaderPosition, m.rendered(start))
	}
	return nil
}

// writeOptional writes what only some tables have.
func (h *headerWriter) writeOptional(row *decoder.Row, m *Message) error {
	if text, err := optional(h.column, row); err != nil {
		return err
	} else if text != nil {
		if err := h.expand(text, m); err != nil {
			return err
		}
	}
	if text, err := optional(h.parent, row); err != nil {
		return err
	} else if len(text) > 0 {
		m.header("traceparent", text)
	}
	text, err := optional(h.context, row)
	if err == nil && text != nil {
		h.traceContext(text, m)
	}
	return err
}

// optional returns the text of a column, or nil where there is no such column or it is NULL.
func optional(w *writer, row *decoder.Row) ([]byte, error) {
	if w == nil {
		return nil, nil
	}
	text, _, err := w.data(row)
	return text, err
}

// expand makes a header of each member of a JSON object: a string as its text, null as a null value, anything else as
// JSON without insignificant whitespace. JSON null means no headers. walrelay.lsn is left out: an application that hands on
// the headers of a record it consumed must not forge the position of the new one.
func (h *headerWriter) expand(doc []byte, m *Message) error {
	object, ok := openObject(doc)
	if !ok {
		if string(doc) == "null" {
			return nil
		}
		return poison("column %s is not a JSON object, so it has no headers", h.column.name)
	}
	for {
		quoted, value, ok := object.next()
		if !ok && !object.whole { // nested deeper than we follow
			return poison("column %s is not a JSON object, so it has no headers", h.column.name)
		}
		if !ok {
			return nil
		}
		start := len(m.scratch)
		m.scratch = appendUnquoted(m.scratch, quoted)
		name := h.names.get(m.rendered(start))
		start = len(m.scratch)
		switch {
		case name == HeaderPosition:
			continue
		case value[0] == '"':
			m.scratch = appendUnquoted(m.scratch, value)
		case string(value) == "null":
			m.header(name, nil)
			continue
		default:
			m.scratch = appendCompact(m.scratch, value)
		}
		m.header(name, notNil(m.rendered(start)))
	}
}

// traceContext passes the W3C headers of a java.util.Properties text on.
func (h *headerWriter) traceContext(text []byte, m *Message) {
	for p := (properties{rest: text}); p.next(m); {
		if name := p.w3c(); name != "" {
			m.header(name, notNil(p.value))
		}
	}
}

// nameCache keeps the strings of header names, so that they are made once.
type nameCache map[string]string

// maxCachedNames bounds the memory for names that never end.
const maxCachedNames = 1024

func (c nameCache) get(name []byte) string {
	if s, ok := c[string(name)]; ok {
		return s
	}
	if len(c) >= maxCachedNames {
		clear(c)
	}
	s := string(name)
	c[s] = s
	return s
}
