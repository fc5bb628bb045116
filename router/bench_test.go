package router

import "testing"

const benchPayload = `{"id": 4711, "state": "created", "customer": {"name": "Ada", "city": "London"}, "lines": [1, 2, 3, 4, 5, 6, 7, 8], "note": "as ordered by telephone"}`

var benchCases = []struct {
	name    string
	config  Config
	columns []col
}{
	{"default", Config{}, outbox(jsonb("", benchPayload))},
	{"headers", Config{Placements: []string{"type:header:eventType", "n:header"}},
		outbox(jsonb("", benchPayload), col{name: "n", oid: oidInt4, modifier: -1, value: "42"})},
	{"bytea", Config{}, outbox(col{oid: oidBytea, modifier: -1, value: `\x000000002a0203616263000000002a0203616263000000002a0203616263`})},
	{"json string", Config{Key: KeyFormat{Format: "json"}, Value: ValueFormat{Format: "json"}}, outbox(jsonb("", benchPayload))},
	{"emoji", Config{Value: ValueFormat{Format: "json"}}, outbox(text("", "😀😀"))},
	{"expanded", Config{Value: ValueFormat{Format: "json", Expand: true}}, outbox(jsonb("", benchPayload))},
	{"envelope", Config{Value: ValueFormat{Format: "json", Expand: true}, Placements: []string{"type:envelope"}}, outbox(jsonb("", benchPayload))},
}

func BenchmarkRoute(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			rel := relationOf(c.columns)
			r, err := Bind(c.config, rel, Catalog{})
			if err != nil {
				b.Fatal(err)
			}
			row := rowOf(rel, c.columns)
			var m Message
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Route(row, testIdentity, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestRouteDoesNotAllocate(t *testing.T) {
	for _, c := range benchCases {
		t.Run(c.name, func(t *testing.T) {
			rel := relationOf(c.columns)
			r, err := Bind(c.config, rel, Catalog{})
			if err != nil {
				t.Fatal(err)
			}
			row := rowOf(rel, c.columns)
			var m Message
			allocations := testing.AllocsPerRun(100, func() {
				if _, err := r.Route(row, testIdentity, &m); err != nil {
					t.Fatal(err)
				}
			})
			if allocations != 0 {
				t.Errorf("%v allocations for a row, want none", allocations)
			}
		})
	}
}
