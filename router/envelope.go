package router

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

// EnvelopeRoute routes the content of transactional pg_logical_emit_message calls, for an outbox without a table. The
// content is one JSON object in UTF-8, and its members are the columns of the Config, by default
//
//	{"id": "…", "aggregatetype": "Order", "aggregateid": "42", "type": "Created", "payload": {…},
//	 "headers": {"name": "value"}, "traceparent": "…"}
//
// id, aggregatetype and payload must be there; a payload of null makes a null value. payload is any JSON value and goes out as
// it stands; elsewhere a string means its text, null or absence means NULL, and anything else means its JSON text.
// Members that no setting names are ignored. Not an object, invalid JSON, or a member twice is poison.
//
// It belongs to one goroutine.
type EnvelopeRoute struct {
	// Bounds is as in Route.
	Bounds Bounds

	route   *Route
	row     decoder.Row
	members []string // by column
	seen    []bool
	topics  []string
	scratch []byte
}

// BindEnvelope makes the route of a message source. topics are the names that events may go to, a final * standing for any
// rest: every role of the database may emit, so there is no default.
func BindEnvelope(c Config, topics []string) (*EnvelopeRoute, error) {
	var problems []error
	if len(topics) == 0 {
		problems = append(problems, errors.New("topics: list the topics that messages may go to, since any role may emit them"))
	}
	if err := c.Validate(); err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	c = c.resolved(nil)
	fill(&c.Columns.Headers, "headers")
	fill(&c.Columns.TraceParent, "traceparent")
	rel := envelopeRelation(c)
	route, err := Bind(c, rel, Catalog{})
	if err = errors.Join(append(problems, err)...); err != nil {
		return nil, fmt.Errorf("message envelope: %w", err)
	}
	members := columnNames(rel)
	return &EnvelopeRoute{
		route: route, members: members, seen: make([]bool, len(members)), topics: topics,
		row: decoder.Row{Relation: rel, Columns: make([]decoder.Column, len(members))},
	}, nil
}

// envelopeRelation is the table that the envelope stands for.
func envelopeRelation(c Config) *decoder.Relation {
	rel := &decoder.Relation{}
	add := func(name string, oid uint32) {
		if name != "" && !slices.Contains(columnNames(rel), name) {
			rel.Columns = append(rel.Columns, decoder.RelationColumn{Name: name, Type: oid, Modifier: -1})
		}
	}
	add(c.Columns.Payload, oidJSON)
	add(c.Columns.Headers, oidJSON)
	add(c.Columns.Timestamp, oidInt8)
	add(c.Columns.SchemaVersion, oidInt4)
	placements, _ := ParsePlacements(c.Placements)
	for _, p := range placements {
		if p.Place == PlacePartition {
			add(p.Column, oidInt4)
		}
	}
	for _, name := range []string{
		c.Columns.ID, c.Route.Field, c.Columns.Key, c.Columns.Type, c.Columns.TraceParent, c.Columns.TraceContext,
	} {
		add(name, oidText)
	}
	for _, p := range placements {
		add(p.Column, oidText)
	}
	return rel
}

// Route makes the record of one message. What Route.Route says of m and of the error holds here as well; m points into
// content and into buffers that the next call overwrites.
func (e *EnvelopeRoute) Route(content []byte, id lsn.Identity, m *Message) (Verdict, error) {
	m.Reset()
	m.Identity, m.Time = id, floorDiv(id.Time, 1000)
	if err := e.parse(content); err != nil {
		return Publish, err
	}
	e.route.Bounds = e.Bounds
	verdict, err := e.route.Route(&e.row, id, m)
	if err == nil && verdict == Publish && !e.allowed(m.Topic) {
		err = poison("message envelope: topic %q is not in the list of topics that messages may go to", m.Topic)
	}
	return verdict, err
}

func (e *EnvelopeRoute) allowed(topic string) bool {
	for _, pattern := range e.topics {
		if prefix, any := strings.CutSuffix(pattern, "*"); pattern == topic || any && strings.HasPrefix(topic, prefix) {
			return true
		}
	}
	return false
}

// parse fills the row.
func (e *EnvelopeRoute) parse(content []byte) error {
	object, ok := openObject(content)
	if !ok || !utf8.Valid(content) {
		return notAnObject()
	}
	for i := range e.row.Columns {
		e.row.Columns[i] = decoder.Column{Kind: decoder.ColumnNull}
		e.seen[i] = false
	}
	e.scratch = e.scratch[:0]
	for {
		quoted, value, ok := object.next()
		if !ok {
			break
		}
		i := e.column(quoted)
		if i < 0 {
			continue
		}
		if e.seen[i] {
			return poison("message envelope: member %q is there twice", e.members[i])
		}
		e.seen[i] = true
		e.set(i, value)
	}
	if !object.whole {
		return notAnObject()
	}
	return e.complete()
}

func notAnObject() error {
	return poison("message envelope: it must be one valid JSON object in UTF-8")
}

// column finds the column of a member's name.
func (e *EnvelopeRoute) column(quoted []byte) int {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		start := len(e.scratch)
		e.scratch = appendUnquoted(e.scratch, quoted)
		name = e.scratch[start:]
		e.scratch = e.scratch[:start]
	}
	for i, member := range e.members {
		if string(name) == member {
			return i
		}
	}
	return -1
}

func (e *EnvelopeRoute) set(i int, value []byte) {
	if string(value) == "null" {
		return
	}
	if value[0] == '"' && i != e.route.value.index {
		start := len(e.scratch)
		e.scratch = appendUnquoted(e.scratch, value)
		value = e.scratch[start:len(e.scratch):len(e.scratch)]
	}
	e.row.Columns[i] = decoder.Column{Kind: decoder.ColumnText, Data: value}
}

func (e *EnvelopeRoute) complete() error {
	if payload := e.route.value.index; !e.seen[payload] {
		return poison("message envelope: no member %q; write null for a null value", e.members[payload])
	}
	if id := e.route.headers.id.index; e.row.Columns[id].Kind == decoder.ColumnNull {
		return poison("message envelope: no member %q", e.members[id])
	}
	return nil
}
