package relay

import (
	"fmt"
	"slices"
	"time"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/router"
)

// routes finds the mapping of a row by its relation.
type routes struct {
	tables  map[string]router.Config // by schema.table
	oids    map[uint32]string        // names of the tables by oid, as they are now
	ignored map[string]bool
	metrics *metrics
	bounds  router.Bounds

	last  *decoder.Relation // of the row before
	route *route
	bound map[uint32]binding // by the oid of the table, of its last description
}

// binding is a description of a table and the mapping that was bound to it; a nil route is one of an ignored table.
type binding struct {
	relation *decoder.Relation
	route    *route
}

// route is the mapping of one source, and what went through it since the last turn.
type route struct {
	mapping  *router.Route // nil for messages
	table    string        // or messagesLabel
	lot      uint64        // lotOfRows or lotOfMessages
	events   int
	bytes    int
	filtered int
	// suppressed events were published by the run before.
	suppressed int
	// kind is the column with the event type; negative: there is none.
	kind int
	// untimely events had a timestamp that Kafka does not take.
	untimely int
}

// kindColumn is the place of the column with the event type.
func kindColumn(config router.Config, relation *decoder.Relation) int {
	name := config.ColumnsOf(relation).Type
	return slices.IndexFunc(relation.Columns, func(c decoder.RelationColumn) bool { return c.Name == name })
}

// kindOf is the event type of the row under way, as the column has it.
func (f *flow) kindOf(source *route) []byte {
	if source.lot != lotOfRows || source.kind < 0 {
		return nil
	}
	return f.decoder.Row.Columns[source.kind].Data
}

func (r *route) sent(m *router.Message) {
	r.events++
	r.bytes += len(m.Value)
	if m.TimeReplaced {
		r.untimely++
	}
}

func newRoutes(cfg Config, oids map[uint32]string, m *metrics) *routes {
	r := &routes{
		tables:  make(map[string]router.Config, len(cfg.Tables)),
		oids:    oids,
		ignored: make(map[string]bool, len(cfg.Ignore)),
		metrics: m,
		bound:   make(map[uint32]binding),
	}
	for _, table := range cfg.Tables {
		r.tables[table.Name] = table.Route
	}
	for _, name := range cfg.Ignore {
		r.ignored[name] = true
	}
	return r
}

// of returns the mapping that was bound to a relation, nil for an ignored table. It is asked at the first row and not at
// the Relation message, since Postgres also describes the partitions of a table whose rows come under the root.
func (r *routes) of(relation *decoder.Relation) (found *route, ok bool) {
	if relation == r.last {
		return r.route, true
	}
	b := r.bound[relation.ID]
	if b.relation != relation {
		return nil, false
	}
	r.last, r.route = relation, b.route
	return b.route, true
}

// needsCatalog tells whether bind must know more of the relation than the stream tells.
func (r *routes) needsCatalog(relation *decoder.Relation) bool {
	config, ok := r.tables[r.name(relation)]
	return ok && config.NeedsCatalog(relation)
}

// name is the configured name of a relation, or its own. The stream has the name that a table had when the row was
// inserted; a table that was renamed since is known by its oid.
func (r *routes) name(relation *decoder.Relation) string {
	own := relation.Namespace + "." + relation.Name
	if _, ok := r.tables[own]; ok || r.ignored[own] {
		return own
	}
	if now, ok := r.oids[relation.ID]; ok {
		return now
	}
	return own
}

// bind makes the mapping for a relation that is new: the table's first one, or its shape has changed. The one before ends,
// since no row of the old shape can follow.
func (r *routes) bind(relation *decoder.Relation, known router.Catalog) (*route, error) {
	name := r.name(relation)
	config, ok := r.tables[name]
	if !ok && !r.ignored[name] {
		return nil, &StopError{
			Code:   fault.TableUnknown,
			Reason: fmt.Sprintf("a row of table %q came, which is not a configured outbox table", name),
			Remedy: "its rows would be lost in silence: add the table to tables, or list it under ignore, " +
				"or take it out of the publication",
		}
	}
	var made *route
	if ok {
		mapping, err := router.Bind(config, relation, known)
		if err != nil {
			return nil, &StopError{
				Code:   fault.TableShape,
				Reason: fmt.Sprintf("outbox table %q does not fit its mapping", name),
				Remedy: "nothing was skipped; correct the columns or the configuration and start again",
				Err:    oneLine(err),
			}
		}
		mapping.Bounds = r.bounds
		made = &route{mapping: mapping, table: name, kind: kindColumn(config, relation)}
	}
	r.flush()
	r.bound[relation.ID] = binding{relation, made}
	r.last, r.route = relation, made
	return made, nil
}

// forget drops relations of an earlier connection: Postgres describes each again.
func (r *routes) forget() {
	r.flush()
	clear(r.bound)
	r.last, r.route = nil, nil
}

// newestTime is how far a record's timestamp may lie ahead of us: brokers refuse an hour and more
// (message.timestamp.after.max.ms), and their clock is not ours.
const newestTime = 55 * time.Minute

// lateAfter is how old a commit may be and still give the record its time: half of what brokers remember of a producer,
// which they count by the time of its records (producer.id.expiration.ms, a day).
const lateAfter = 12 * time.Hour

// turn counts, and moves the bounds of what is accepted as a record's timestamp. Those of an application's column are open
// to the past: only a topic's retention could say what is too old.
func (r *routes) turn(now time.Time) {
	r.flush()
	r.bounds = router.Bounds{
		Newest: now.Add(newestTime).UnixMilli(), Late: now.Add(-lateAfter).UnixMilli(), Now: now.UnixMilli(),
	}
	for _, b := range r.bound {
		if b.route != nil {
			b.route.mapping.Bounds = r.bounds
		}
	}
}

// flush adds what went through since the last turn to the metrics; counting there for every event would cost
// more than routing it.
func (r *routes) flush() {
	for _, b := range r.bound {
		if b.route != nil {
			b.route.flush(r.metrics)
		}
	}
}

func (r *route) flush(m *metrics) {
	if r.events+r.filtered+r.suppressed == 0 {
		return
	}
	m.routed(r)
	r.events, r.bytes, r.filtered, r.suppressed, r.untimely = 0, 0, 0, 0, 0
}
