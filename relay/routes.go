package relay

import (
	"fmt"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/router"
)

// routes finds the mapping of a row by its relation.
type routes struct {
	tables   map[string]router.Config // by schema.table
	catalogs map[string]router.Catalog
	ignored  map[string]bool
	metrics  *metrics

	last  *decoder.Relation // of the row before
	route *route
	bound map[*decoder.Relation]*route
}

// route is the mapping of one relation, and what went through it since the last turn.
type route struct {
	mapping  *router.Route
	table    string
	events   int
	bytes    int
	filtered int
	// suppressed events were published by the run before.
	suppressed int
}

func (r *route) sent(bytes int) {
	r.events++
	r.bytes += bytes
}

func newRoutes(cfg Config, catalogs map[string]router.Catalog, m *metrics) *routes {
	r := &routes{
		catalogs: catalogs,
		tables:   make(map[string]router.Config, len(cfg.Tables)),
		ignored:  make(map[string]bool, len(cfg.Ignore)),
		metrics:  m,
		bound:    make(map[*decoder.Relation]*route),
	}
	for _, table := range cfg.Tables {
		r.tables[table.Name] = table.Route
	}
	for _, name := range cfg.Ignore {
		r.ignored[name] = true
	}
	return r
}

// of returns the mapping of a relation, nil for an ignored table. It is asked at the first row and not at the
// Relation message, since Postgres also describes the partitions of a table whose rows come under the root.
func (r *routes) of(relation *decoder.Relation) (*route, error) {
	if relation == r.last {
		return r.route, nil
	}
	found, ok := r.bound[relation]
	if !ok {
		var err error
		if found, err = r.bind(relation); err != nil {
			return nil, err
		}
		r.bound[relation] = found
	}
	r.last, r.route = relation, found
	return found, nil
}

func (r *routes) bind(relation *decoder.Relation) (*route, error) {
	name := relation.Namespace + "." + relation.Name
	config, ok := r.tables[name]
	if !ok {
		if r.ignored[name] {
			return nil, nil
		}
		return nil, &StopError{
			Reason: fmt.Sprintf("a row of table %q came, which is not a configured outbox table", name),
			Remedy: "its rows would be lost in silence: add the table to tables, or list it under ignore, " +
				"or take it out of the publication (a renamed outbox table comes under its new name)",
		}
	}
	bound, err := router.Bind(config, relation, r.catalogs[name])
	if err != nil {
		return nil, &StopError{
			Reason: fmt.Sprintf("outbox table %q does not fit its mapping", name),
			Remedy: "nothing was skipped; correct the columns or the configuration and start again",
			Err:    err,
		}
	}
	return &route{mapping: bound, table: name}, nil
}

// forget drops relations of an earlier connection: Postgres describes each again.
func (r *routes) forget() {
	r.flush()
	clear(r.bound)
	r.last, r.route = nil, nil
}

// flush adds what went through since the last turn to the metrics; counting there for every event would cost
// more than routing it.
func (r *routes) flush() {
	for _, route := range r.bound {
		if route == nil || route.events+route.filtered+route.suppressed == 0 {
			continue
		}
		r.metrics.routed(route)
		route.events, route.bytes, route.filtered, route.suppressed = 0, 0, 0, 0
	}
}
