package router

import (
	"strings"
	"testing"

	"github.com/walrelay/walrelay/decoder"
)

const (
	oidLabel = firstUserOid + iota
	oidGone
)

// A column of a type that was dropped since has no meaning any more, unless nothing is made of it.
func TestDroppedTypeIsRefused(t *testing.T) {
	t.Parallel()
	rel := relationOf(outbox(jsonb("", "{}"), col{name: "label", oid: oidLabel, modifier: -1}, col{name: "gone", oid: oidGone, modifier: -1}))
	known := Catalog{Types: map[uint32]TypeInfo{oidLabel: {Base: oidInt4, BaseModifier: -1}}}
	if _, err := Bind(Config{Placements: []string{"label:header"}}, rel, known); err != nil {
		t.Errorf("a column that is not used: %v", err)
	}
	_, err := Bind(Config{Placements: []string{"gone:header"}}, rel, known)
	if err == nil || !strings.Contains(err.Error(), `column "gone": its type (oid 16385) does not exist any more`) {
		t.Errorf("error %v", err)
	}
	if _, err := Bind(Config{Placements: []string{"gone:header"}}, rel, Catalog{}); err != nil {
		t.Errorf("without a catalog it is text: %v", err)
	}
}

func TestNeedsCatalog(t *testing.T) {
	t.Parallel()
	plain := relationOf(outbox(jsonb("", "{}")))
	typed := relationOf(outbox(jsonb("", "{}"), col{name: "label", oid: oidLabel, modifier: -1}))
	for _, c := range []struct {
		name   string
		config Config
		rel    *decoder.Relation
		want   bool
	}{
		{"built-in types", Config{}, plain, false},
		{"a type of the user's", Config{}, typed, true},
		{"schemas of values", Config{Value: ValueFormat{Schemas: true}}, plain, true},
		{"schemas of keys", Config{Key: KeyFormat{Schemas: true}}, plain, true},
		{"schemas of headers", Config{Headers: Headers{Schemas: true}}, plain, true},
	} {
		if got := c.config.NeedsCatalog(c.rel); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The catalog is of now and the row of then: a NULL in a column that has become NOT NULL must not contradict its schema,
// or Connect's converters refuse the record.
func TestNullWhereTheCatalogSaysNotNull(t *testing.T) {
	t.Parallel()
	json := func(envelope ...string) Config {
		return Config{Key: KeyFormat{Format: "json", Schemas: true}, Value: ValueFormat{Format: "json", Schemas: true}, Placements: envelope}
	}
	known := Catalog{NotNull: map[string]bool{"payload": true, "aggregateid": true, "n": true}}
	const number, payload = `{"type":"int32","optional":`, `{"type":"string","optional":`
	for _, c := range []struct {
		name       string
		config     Config
		n, payload any
		want       string // in the value
	}{
		{"payload", json(), "1", "x", `{"schema":` + payload + `false},"payload":"x"}`},
		{"payload NULL", json(), "1", nil, `{"schema":` + payload + `true},"payload":null}`},
		{"envelope", json("n:envelope"), "1", "x", payload + `false,"field":"payload"},` + number + `false,"field":"n"}`},
		{"envelope with NULL", json("n:envelope"), nil, "x", payload + `true,"field":"payload"},` + number + `true,"field":"n"}`},
		{"envelope of NULL", json("n:envelope"), "1", nil, payload + `true,"field":"payload"},` + number + `true,"field":"n"}`},
	} {
		columns := outbox(text("", c.payload), col{name: "n", oid: oidInt4, modifier: -1, value: c.n})
		rel := relationOf(columns)
		r, err := Bind(c.config, rel, known)
		if err != nil {
			t.Fatal(err)
		}
		var m Message
		if _, err := r.Route(rowOf(rel, columns), testIdentity, &m); err != nil || !strings.Contains(string(m.Value), c.want) {
			t.Errorf("%s: %v\n%s\nwant %s", c.name, err, m.Value, c.want)
		}
	}
}
