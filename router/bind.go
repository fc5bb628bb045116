package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/walrelay/walrelay/decoder"
)

// Catalog is what the stream does not tell about a table. The zero Catalog is valid: every type that is not built in is
// then treated as text, and every column outside of the replica identity as nullable.
type Catalog struct {
	// Types describes types that are not built in, by oid: those of the columns, and those that they are made of. Where it
	// is not nil, a column that is used and whose type is not in it is refused.
	Types map[uint32]TypeInfo
	// NotNull has the columns with a NOT NULL constraint. Only Connect's schemas depend on it.
	NotNull map[string]bool
}

// NeedsCatalog tells whether the records of the relation's rows depend on more than the stream tells: on types that are not
// built in, or, through Connect's schemas, on what may be NULL.
func (c Config) NeedsCatalog(rel *decoder.Relation) bool {
	userType := func(column decoder.RelationColumn) bool { return column.Type >= firstUserOid }
	return c.Key.Schemas || c.Value.Schemas || c.Headers.Schemas || slices.ContainsFunc(rel.Columns, userType)
}

// TypeInfo is the row of a type in pg_type.
type TypeInfo struct {
	Base         uint32   // typbasetype of a domain
	BaseModifier int32    // typtypmod of a domain
	Element      uint32   // typelem of an array
	Enum         []string // the labels of an enum, in their order
}

// Bind checks a Config against one shape of a table and makes the Route for its rows. It is called again for each new
// decoder.Relation of the table. All problems are returned together.
func Bind(c Config, rel *decoder.Relation, known Catalog) (*Route, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	b := binder{config: c.resolved(columnNames(rel)), relation: rel, known: known}
	route := b.route()
	if len(b.problems) > 0 {
		return nil, fmt.Errorf("outbox table %q.%q: %w", rel.Namespace, rel.Name, errors.Join(b.problems...))
	}
	return route, nil
}

func columnNames(rel *decoder.Relation) []string {
	names := make([]string, len(rel.Columns))
	for i := range rel.Columns {
		names[i] = rel.Columns[i].Name
	}
	return names
}

type binder struct {
	config   Config
	relation *decoder.Relation
	known    Catalog
	problems []error
}

// column is a column of the relation.
type column struct {
	index   int
	name    string
	oid     uint32 // of the base type
	typ     columnType
	notNull bool
}

func (b *binder) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Errorf(format, args...))
}

// find returns the column of that name.
func (b *binder) find(name string) (column, bool) {
	i := slices.IndexFunc(b.relation.Columns, func(c decoder.RelationColumn) bool { return c.Name == name })
	if i < 0 {
		return column{}, false
	}
	c := b.relation.Columns[i]
	oid, modifier := b.known.base(c.Type, c.Modifier)
	typ, ok := b.known.columnType(oid, modifier, b.config.Types)
	switch {
	case !b.known.has(c.Type):
		b.problem("column %q: its type (oid %d) does not exist any more, so that nobody can say what its values mean; "+
			"leave the column out of the mapping", name, c.Type)
	case !ok:
		b.problem("column %q: its type (oid %d) has no form in a record; store it as text", name, c.Type)
	}
	const identityFull = 'f' // all columns are marked then
	notNull := b.known.NotNull[name] || c.Key && b.relation.Identity != identityFull
	return column{index: i, name: name, oid: oid, typ: typ, notNull: notNull}, true
}

// need returns the column that a setting names, or reports that there is none.
func (b *binder) need(setting, name string) (column, bool) {
	c, ok := b.find(name)
	if !ok {
		b.problem("%s: no column %q; the table has %s", setting, name, strings.Join(columnNames(b.relation), ", "))
	}
	return c, ok
}

// needText is need for a column that must be a string to Connect.
func (b *binder) needText(setting, name string) (column, bool) {
	c, ok := b.need(setting, name)
	if ok && c.typ.kind != kindText {
		b.problem("%s: column %q must be a text, varchar, char, uuid or enum", setting, name)
	}
	return c, ok
}

// needType is need for a column of certain types.
func (b *binder) needType(setting, name, types string, oids ...uint32) (column, bool) {
	c, ok := b.need(setting, name)
	if ok && !slices.Contains(oids, c.oid) {
		b.problem("%s: column %q must be of type %s", setting, name, types)
	}
	return c, ok
}

func (b *binder) route() *Route {
	c := b.config
	r := &Route{columns: len(b.relation.Columns), dropMatch: c.Filter.Mode == drop, types: newWordSet(c.Filter.Types)}
	r.topics, _ = newTopicRouter(c.Route, c.Filter.Values)
	routeBy, _ := b.needText("route.field", c.Route.Field)
	r.routeBy = newWriter(routeBy, stylePlain, false)
	key, _ := b.need("columns.key", c.Columns.Key)
	keyStyle := stylePlain
	if c.Key.Format == formatJSON {
		keyStyle = styleJSON
	}
	r.key = newWriter(key, keyStyle, c.Key.Schemas)
	if r.types != nil {
		r.eventType = b.optionalText("columns.type", c.Columns.Type)
	}
	placements, _ := ParsePlacements(c.Placements)
	r.value = b.value(placements)
	r.headers = b.headers(placements)
	r.partition = b.partition(placements)
	r.time = b.time()
	return r
}

func (b *binder) optionalText(setting, name string) *writer {
	if name == "" {
		return nil
	}
	c, _ := b.needText(setting, name)
	w := newWriter(c, stylePlain, false)
	return &w
}

// value binds the payload and its envelope.
func (b *binder) value(placements []Placement) valueWriter {
	c := b.config.Value
	payload, _ := b.need("columns.payload", b.config.Columns.Payload)
	members, aliases := b.envelopeColumns(placements)
	enveloped := len(members) > 0
	v := valueWriter{
		writer:    newWriter(payload, b.valueStyle(payload, enveloped), c.Schemas && !enveloped),
		expand:    c.Expand && payload.typ.kind == kindText,
		checked:   payload.oid == oidJSON || payload.oid == oidJSONB,
		infers:    c.Schemas,
		tombstone: c.TombstoneOnEmpty,
	}
	if !enveloped {
		return v
	}
	v.envelope = &envelopeWriter{}
	for i, m := range members {
		key := append(appendJSONString([]byte{','}, aliases[i]), ':')
		v.envelope.members = append(v.envelope.members, envelopeMember{newWriter(m, styleJSON, false), string(key)})
	}
	if c.Schemas {
		v.envelope.schema = newEnvelopeSchema(payload, members, aliases, b.schemaPrefix())
		if name := b.config.Columns.SchemaVersion; name != "" {
			version, _ := b.needType("columns.schema_version", name, "integer", oidInt4)
			w := newWriter(version, stylePlain, false)
			v.envelope.schema.version = &w
		}
	}
	return v
}

func (b *binder) valueStyle(payload column, enveloped bool) style {
	isBytes := payload.typ.kind == kindBytes
	switch format := b.config.Value.Format; {
	case format == formatBytes && !isBytes:
		b.problem("value.format bytes: column %q must be of type bytea", payload.name)
	case enveloped, format == formatJSON, format == formatBytesOrJSON && !isBytes:
		return styleJSON
	}
	return stylePlain
}

func (b *binder) schemaPrefix() string {
	prefix := b.relation.Namespace + "." + b.relation.Name + "."
	if b.config.Value.SchemaPrefix != "" {
		prefix = b.config.Value.SchemaPrefix + "." + prefix
	}
	return prefix
}

func (b *binder) envelopeColumns(placements []Placement) (members []column, aliases []string) {
	for _, p := range placements {
		if p.Place != PlaceEnvelope {
			continue
		}
		if c, ok := b.placed(p); ok {
			members = append(members, c)
			aliases = append(aliases, p.Alias)
		}
	}
	return members, aliases
}

// placed returns the column of a placement, unless it is missing and that is to be ignored.
func (b *binder) placed(p Placement) (column, bool) {
	if b.config.MissingColumn == missingIgnore {
		return b.find(p.Column)
	}
	return b.need("placement "+p.String(), p.Column)
}

func (b *binder) headers(placements []Placement) headerWriter {
	c := b.config
	style := map[string]style{formatText: styleSimple, formatString: stylePlain, formatJSON: styleJSON}[c.Headers.Format]
	id, _ := b.need("columns.id", c.Columns.ID)
	h := headerWriter{
		idName: c.Headers.ID, id: newWriter(id, style, c.Headers.Schemas),
		omitNulls: c.Headers.Nulls == omit,
		parent:    b.optionalText("columns.traceparent", c.Columns.TraceParent),
		context:   b.optionalText("columns.trace_context", c.Columns.TraceContext),
		names:     make(nameCache),
	}
	if c.Headers.Position == on {
		h.position = &positionText{}
	}
	if name := c.Columns.Headers; name != "" {
		column, _ := b.needType("columns.headers", name, "json or jsonb", oidJSON, oidJSONB)
		w := newWriter(column, stylePlain, false)
		h.column = &w
	}
	for _, p := range placements {
		if p.Place != PlaceHeader {
			continue
		}
		if column, ok := b.placed(p); ok {
			h.placed = append(h.placed, placedHeader{p.Alias, newWriter(column, style, c.Headers.Schemas)})
		}
	}
	return h
}

// partition binds the last partition placement, as Debezium does.
func (b *binder) partition(placements []Placement) (w *writer) {
	for _, p := range placements {
		if p.Place != PlacePartition {
			continue
		}
		if column, ok := b.placed(p); ok {
			if column.oid != oidInt4 {
				b.problem("placement %s: column %q must be of type integer", p, p.Column)
			}
			writer := newWriter(column, stylePlain, false)
			w = &writer
		}
	}
	return w
}

func (b *binder) time() *timeReader {
	name := b.config.Columns.Timestamp
	if name == "" {
		return nil
	}
	c, _ := b.needType("columns.timestamp", name, "timestamp, timestamptz, date or bigint (milliseconds)",
		oidTimestamp, oidTimestamptz, oidDate, oidInt8)
	return &timeReader{writer: newWriter(c, stylePlain, false), kind: c.typ.kind}
}
