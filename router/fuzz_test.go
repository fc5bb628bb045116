package router

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/walrelay/walrelay/decoder"
)

// FuzzRoute gives every column of a table with every kind of type the same arbitrary bytes.
func FuzzRoute(f *testing.F) {
	for _, seed := range []string{
		"", "t", "1", "-1.5", "NaN", `\x00ff`, "2024-02-29", "2024-01-02 03:04:05.678+02", "13:14:15+02", "1 day 02:03:04", "{1,NULL}", `{"a"`,
		`{"a": "\ud83d", "b": {}}`, "(1,2)", "$1,000.00", "a\\\n=b", "101",
	} {
		f.Add([]byte(seed), uint8(0))
	}
	oids := []uint32{
		oidBool, oidInt4, oidInt8, oidFloat4, oidFloat8, oidNumeric, oidMoney, oidBytea, oidBit, oidVarbit, oidPoint, oidDate, oidTime, oidTimetz,
		oidTimestamp, oidTimestamptz, oidInterval, oidJSON, oidUUID, oidText, 1007, 1009, 1231, 1185,
	}
	var columns []col
	placements := []string{"type:header"}
	for i, oid := range oids {
		name := "c" + string(rune('a'+i))
		columns = append(columns, col{name: name, oid: oid, modifier: -1})
		placements = append(placements, name+":header", name+":envelope")
	}
	rel := relationOf(outbox(text("", ""), append(columns, text("tp", ""), text("tc", ""), jsonb("h", ""), ts("at", ""))...))
	special := Columns{Timestamp: "at", Headers: "h", TraceParent: "tp", TraceContext: "tc"}
	var routes []*Route
	for _, c := range []Config{
		{Columns: special, Placements: placements, Value: ValueFormat{Format: "json", Schemas: true, Expand: true}, Key: KeyFormat{Format: "json"}},
		{Columns: special, Placements: placements, Value: ValueFormat{Format: "json"}, Headers: Headers{Format: "json", Schemas: true}, Types: Types{Time: "isostring", Binary: "hex", Decimal: "double", Interval: "string"}},
		{Columns: special, Value: ValueFormat{Expand: true, TombstoneOnEmpty: true}, Types: Types{Time: "connect", Decimal: "string"}},
	} {
		r, err := Bind(c, rel, Catalog{})
		if err != nil {
			f.Fatal(err)
		}
		routes = append(routes, r)
	}
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		row := &decoder.Row{Relation: rel, Columns: make([]decoder.Column, len(rel.Columns))}
		for i := range row.Columns {
			row.Columns[i] = decoder.Column{Kind: decoder.ColumnNull}
		}
		// One column at a time, so that the first bad one does not hide the rest.
		row.Columns[int(which)%len(row.Columns)] = decoder.Column{Kind: decoder.ColumnText, Data: data}
		row.Columns[1] = decoder.Column{Kind: decoder.ColumnText, Data: []byte("Order")}
		for _, r := range routes {
			var m Message
			_, err := r.Route(row, testIdentity, &m)
			if _, isPoison := err.(*PoisonError); err != nil && !isPoison {
				t.Errorf("%q: error %v", data, err)
			}
			if err == nil && m.Topic != "outbox.event.Order" {
				t.Errorf("%q: topic %q", data, m.Topic)
			}
		}
	})
}

// FuzzJSON compares the scanner with encoding/json.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"", " ", "0", "-0", "-", "01", "1.", "1.5e+3", "1e", ".5", "true", "nul", `"`, `"\`, `"\u12G4"`, `"\u00"`, `"\x41"`, `"\/\b\f\n\r\t\""`, `"\ud800"`, "\"\x1f\"", "\"1234567\x7f\xff\"", `{"a": [1, {}], "b": ""}`,
		`[1 2]`, `[1:2]`, `{"a":1:"b":2}`, "\"12345678\x1f2345678\"", "\"1234567\x00\"", `{"a" 1}`, `{,}`, `[1,]`, `{"a":1,}`, `{:1}`, `[]]`, "\"12345678901234567\\n\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := json.Valid(text)
		if got := validJSON(text); got != want {
			t.Errorf("%q: valid %v, want %v", text, got, want)
		}
		object, ok := openObject(text)
		for ok {
			_, _, ok = object.next()
		}
		if got := object.whole; got != (want && bytes.TrimSpace(text)[0] == '{') {
			t.Errorf("%q: walked to the end %v, valid %v", text, got, want)
		}
	})
}
