package router

import (
	"testing"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

// col is a column of a test table and its value in one row, as Postgres sends it. A nil value is NULL.
type col struct {
	name     string
	oid      uint32
	modifier int32
	value    any // string or nil
	key      bool
}

// as gives a column another name.
func (c col) as(name string) col {
	c.name = name
	return c
}

func text(name string, value any) col {
	return col{name: name, oid: oidText, modifier: -1, value: value}
}
func jsonb(name string, value any) col {
	return col{name: name, oid: oidJSONB, modifier: -1, value: value}
}
func uuid(name string, value any) col {
	return col{name: name, oid: oidUUID, modifier: -1, value: value, key: true}
}

const testID = "7f3c2a10-1111-4222-8333-444455556666"

// outbox is a table with Debezium's names.
func outbox(payload col, more ...col) []col {
	payload.name = "payload"
	return append([]col{
		uuid("id", testID), text("aggregatetype", "Order"), text("aggregateid", "k-1"), text("type", "Created"), payload,
	}, more...)
}

func relationOf(columns []col) *decoder.Relation {
	rel := &decoder.Relation{ID: 16400, Namespace: "public", Name: "outbox", Identity: 'd'}
	for _, c := range columns {
		rel.Columns = append(rel.Columns, decoder.RelationColumn{Name: c.name, Type: c.oid, Modifier: c.modifier, Key: c.key})
	}
	return rel
}

func rowOf(rel *decoder.Relation, columns []col) *decoder.Row {
	row := &decoder.Row{Relation: rel}
	for _, c := range columns {
		if c.value == nil {
			row.Columns = append(row.Columns, decoder.Column{Kind: decoder.ColumnNull})
			continue
		}
		row.Columns = append(row.Columns, decoder.Column{Kind: decoder.ColumnText, Data: []byte(c.value.(string))})
	}
	return row
}

var testIdentity = lsn.Identity{Source: 0xabcd1234, Commit: 0x1_0000_2A40, Time: 1_700_000_000_123_456, Ordinal: 3}

// route binds a config to a table and routes its row.
func route(t testing.TB, c Config, columns []col) (*Message, Verdict, error) {
	t.Helper()
	rel := relationOf(columns)
	r, err := Bind(c, rel, Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	verdict, err := r.Route(rowOf(rel, columns), testIdentity, &m)
	return &m, verdict, err
}

// published is route for a row that must be published.
func published(t testing.TB, c Config, columns []col) *Message {
	t.Helper()
	m, verdict, err := route(t, c, columns)
	if err != nil || verdict != Publish {
		t.Fatalf("route: verdict %d, error %v", verdict, err)
	}
	return m
}
