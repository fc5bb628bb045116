package router

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

// record is a Message as tests write it down.
type record struct {
	Topic, Key, Value string
	Headers           []string
	Partition         int32
	Time              int64
}

const commitMillis = 1_700_000_000_123

func recordOf(m *Message) record {
	r := record{m.Topic, printable(m.Key), printable(m.Value), nil, m.Partition, m.Time}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, h.Name+"="+printable(h.Value))
	}
	return r
}

func printable(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return string(b)
}

const (
	idHeader       = "id=" + testID
	positionHeader = "walrelay.lsn=abcd1234:1/2A40:1700000000123456:3"
)

// The tests of Debezium's EventRouterTest, by their names, as far as they are about a row: what becomes of operations other
// than INSERT is decided by the publication. The values are those of vectors.jsonl where it has the case.
func TestEventRouter(t *testing.T) {
	t.Parallel()
	doc := jsonb("", `{"a": 1}`)
	standard := record{"outbox.event.Order", "k-1", `{"a": 1}`, []string{idHeader, positionHeader}, -1, commitMillis}
	with := func(change func(r *record)) record {
		r := standard
		change(&r)
		return r
	}
	value := func(v string) record { return with(func(r *record) { r.Value = v }) }
	headers := func(h ...string) record {
		return with(func(r *record) { r.Headers = append(append([]string{idHeader}, h...), positionHeader) })
	}
	jsonValue := func(expand bool) ValueFormat { return ValueFormat{Format: "json", Expand: expand} }
	for _, c := range []struct {
		name    string
		config  Config
		columns []col
		want    record
	}{
		{"canExtractTableFields", Config{}, outbox(jsonb("", "{}")), value("{}")},
		{"canSetDefaultMessageKey", Config{}, outbox(doc), standard},
		{"canSetMessageKey", Config{Columns: Columns{Key: "type"}}, outbox(doc), with(func(r *record) { r.Key = "Created" })},
		{"canSetTimestampFromDebeziumEnvelopeByDefault: commit time", Config{}, outbox(doc), standard},
		{"canSetTimestampByUserDefinedConfiguration", Config{Columns: Columns{Timestamp: "at"}},
			outbox(doc, col{name: "at", oid: oidTimestamp, modifier: 3, value: "2019-03-28 01:02:03.456"}),
			with(func(r *record) { r.Time = 1553734923456 })},
		{"canRouteBasedOnField", Config{Route: Routing{Field: "type"}}, outbox(doc), with(func(r *record) { r.Topic = "outbox.event.Created" })},
		{"canConfigureEveryTableField",
			Config{Columns: Columns{ID: "eid", Key: "agg_id", Type: "ety", Payload: "body"}, Route: Routing{Field: "agg_type"}},
			[]col{uuid("eid", testID), text("agg_type", "Order"), text("agg_id", "k-1"), text("ety", "Created"), jsonb("body", `{"a": 1}`)}, standard},
		{"canInfluenceTableColumnTypes", Config{},
			[]col{{name: "id", oid: oidInt4, modifier: -1, value: "7"}, text("aggregatetype", "Order"),
				{name: "aggregateid", oid: oidInt4, modifier: -1, value: "10"}, {name: "type", oid: oidBytea, modifier: -1, value: `\x00`},
				{name: "payload", oid: oidBytea, modifier: -1, value: `\x0001ff`}},
			record{"outbox.event.Order", "10", "\x00\x01\xff", []string{"id=7", positionHeader}, -1, commitMillis}},
		{"canSetPayloadTypeIntoTheEnvelope", Config{Placements: []string{"type:envelope"}, Value: jsonValue(false)}, outbox(doc),
			value(`{"payload":"{\"a\": 1}","type":"Created"}`)},
		{"canSetPayloadTypeIntoTheEnvelopeWithAlias", Config{Placements: []string{"type:envelope:eventType"}, Value: jsonValue(false)}, outbox(doc),
			value(`{"payload":"{\"a\": 1}","eventType":"Created"}`)},
		{"canSetMultipleFieldsIntoTheEnvelope",
			Config{Placements: []string{" type : header : eventType , aggregateid:header:aid, type:envelope , aggregatetype:envelope:at"}, Value: jsonValue(false)}, outbox(doc),
			with(func(r *record) {
				r.Value = `{"payload":"{\"a\": 1}","type":"Created","at":"Order"}`
				r.Headers = []string{idHeader, "eventType=Created", "aid=k-1", positionHeader}
			})},
		{"canSetPartitionWithAdditionalFields", Config{Placements: []string{"p:partition"}},
			outbox(doc, col{name: "p", oid: oidInt4, modifier: -1, value: "3"}), with(func(r *record) { r.Partition = 3 })},
		{"partition NULL", Config{Placements: []string{"p:partition"}}, outbox(doc, col{name: "p", oid: oidInt4, modifier: -1}), standard},
		{"canPassStringKey", Config{Key: KeyFormat{Format: "json"}}, outbox(doc), with(func(r *record) { r.Key = `"k-1"` })},
		{"canSetBinaryMessageKey", Config{Columns: Columns{Key: "b"}},
			outbox(doc, col{name: "b", oid: oidBytea, modifier: -1, value: `\x00ff41`}), with(func(r *record) { r.Key = "\x00\xffA" })},
		{"canPassBinaryMessage", Config{Value: ValueFormat{Format: "bytes"}}, outbox(col{oid: oidBytea, modifier: -1, value: `\x`}), value("")},
		{"canMarkAnEventAsDeleted", Config{Placements: []string{"type:envelope"}, Value: ValueFormat{Format: "json", TombstoneOnEmpty: true}},
			outbox(text("", " \t\n")), value("NULL")},
		{"noTombstoneIfNotConfigured", Config{}, outbox(text("", "")), value("")},
		{"tombstone: U+00A0 is not blank", Config{Value: ValueFormat{TombstoneOnEmpty: true}}, outbox(text("", "\u00a0")), value("\u00a0")},
		{"tombstone: an empty bytea is not blank", Config{Value: ValueFormat{TombstoneOnEmpty: true}}, outbox(col{oid: oidBytea, modifier: -1, value: `\x`}), value("")},
		{"tombstone: a bytea written as text is", Config{Value: ValueFormat{TombstoneOnEmpty: true}, Types: Types{Binary: "base64"}}, outbox(col{oid: oidBytea, modifier: -1, value: `\x`}), value("NULL")},
		{"tombstone: NULL", Config{Value: ValueFormat{Format: "json", TombstoneOnEmpty: true}}, outbox(jsonb("", nil)), value("NULL")},
		{"null payload", Config{}, outbox(jsonb("", nil)), value("NULL")},
		{"null payload as JSON", Config{Value: jsonValue(false)}, outbox(jsonb("", nil)), value("null")},
		{"canExpandJsonPayloadIfConfigured", Config{Value: jsonValue(true)}, outbox(jsonb("", `{"a": {"b": [1, 2.50, null, "x y"]}, "c": []}`)),
			value(`{"a":{"b":[1,2.50,null,"x y"]},"c":[]}`)},
		{"shouldNotWarnOnNullPayloadWhenExpandJsonPayloadEnabled", Config{Value: jsonValue(true)}, outbox(jsonb("", nil)), value("null")},
		{"shouldNotExpandJSONPayloadIfNotConfigured", Config{Value: jsonValue(false)}, outbox(doc), value(`"{\"a\": 1}"`)},
		{"expansion of no JSON", Config{Value: jsonValue(true)}, outbox(text("", `{"a": `)), value(`"{\"a\": "`)},
		{"expansion of a scalar", Config{Value: jsonValue(true)}, outbox(jsonb("", `1.50`)), value(`"1.50"`)},
		{"expansion with a space before", Config{Value: jsonValue(true)}, outbox(text("", ` {}`)), value(`" {}"`)},
		{"expansion into raw", Config{Value: ValueFormat{Expand: true}}, outbox(text("", `{ "a" : 1 }`)), value(`{"a":1}`)},
		{"canExpandJsonPayloadWithAdditionalFieldInEnvelope", Config{Placements: []string{"type:envelope"}, Value: jsonValue(true)}, outbox(doc),
			value(`{"payload":{"a":1},"type":"Created"}`)},
		{"canSetFieldIntoTheEnvelopeWithMissingField", Config{Placements: []string{"nope:envelope,type:envelope"}, MissingColumn: "ignore", Value: jsonValue(false)},
			outbox(doc), value(`{"payload":"{\"a\": 1}","type":"Created"}`)},
		{"header of a missing column", Config{Placements: []string{"nope:header,type:header:t"}, MissingColumn: "ignore"}, outbox(doc), headers("t=Created")},
		{"alias id", Config{Placements: []string{"type:header:id"}}, outbox(doc), headers("id=Created")},
		{"null header", Config{Placements: []string{"n:header"}}, outbox(doc, text("n", nil)), headers("n=NULL")},
		{"null header omitted", Config{Placements: []string{"n:header"}, Headers: Headers{Nulls: "omit"}}, outbox(doc, text("n", nil)), headers()},
		{"null key", Config{}, append(outbox(doc)[:2:2], text("aggregateid", nil), doc.as("payload")), with(func(r *record) { r.Key = "NULL" })},
		{"null key as JSON", Config{Key: KeyFormat{Format: "json"}}, append(outbox(doc)[:2:2], text("aggregateid", nil), doc.as("payload")), with(func(r *record) { r.Key = "null" })},
		{"empty key", Config{}, append(outbox(doc)[:2:2], text("aggregateid", ""), doc.as("payload")), with(func(r *record) { r.Key = "" })},
		{"headers as JSON", Config{Headers: Headers{Format: "json", Position: "off"}, Placements: []string{"type:header"}}, outbox(doc),
			with(func(r *record) { r.Headers = []string{`id="` + testID + `"`, `type="Created"`} })},
		{"key with schema", Config{Key: KeyFormat{Format: "json", Schemas: true}}, outbox(doc),
			with(func(r *record) { r.Key = `{"schema":{"type":"string","optional":true},"payload":"k-1"}` })},
		{"id with schema", Config{Headers: Headers{Format: "json", Schemas: true, Position: "off"}}, outbox(doc), with(func(r *record) {
			r.Headers = []string{`id={"schema":{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1},"payload":"` + testID + `"}`}
		})},
		{"value with schema", Config{Value: ValueFormat{Format: "json", Schemas: true}}, outbox(doc),
			value(`{"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":"{\"a\": 1}"}`)},
		{"null value with schema", Config{Value: ValueFormat{Format: "json", Schemas: true}}, outbox(text("", nil)),
			value(`{"schema":{"type":"string","optional":true},"payload":null}`)},
		{"canSetSchemaVersionWhenMoreThanPayloadIsInEnvelope",
			Config{Columns: Columns{SchemaVersion: "v"}, Placements: []string{"type:envelope"}, Value: ValueFormat{Format: "json", Schemas: true, SchemaPrefix: "dbz"}},
			outbox(doc, col{name: "v", oid: oidInt4, modifier: -1, value: "2"}),
			value(`{"schema":{"type":"struct","fields":[{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1,"field":"payload"},{"type":"string","optional":true,"field":"type"}],"optional":false,"name":"dbz.public.outbox.Order.Value","version":2},"payload":{"payload":"{\"a\": 1}","type":"Created"}}`)},
		{"expanded envelope with schema",
			Config{Placements: []string{"type:envelope"}, Value: ValueFormat{Format: "json", Schemas: true, Expand: true}}, outbox(doc),
			value(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"}],"optional":true,"name":"payload","field":"payload"},{"type":"string","optional":true,"field":"type"}],"optional":false,"name":"public.outbox.Order.Value"},"payload":{"payload":{"a":1},"type":"Created"}}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, recordOf(published(t, c.config, c.columns))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every problem of a table is in one report.
func TestBindReportsEveryProblem(t *testing.T) {
	t.Parallel()
	c := Config{
		Columns: Columns{ID: "nope", Key: "aggregateid", Timestamp: "type", Headers: "type", SchemaVersion: "type"},
		Route:   Routing{Field: "n"}, Filter: Filter{Types: []string{"x"}},
		Placements: []string{"n:partition,gone:header,box:header,type:envelope"},
		Value:      ValueFormat{Format: "json", Schemas: true},
	}
	columns := []col{text("aggregateid", ""), {name: "type", oid: oidInt8}, {name: "n", oid: oidInt2}, jsonb("payload", ""), {name: "box", oid: 603}}
	_, err := Bind(c, relationOf(columns), Catalog{})
	for _, want := range []string{
		`"public"."outbox"`, `columns.id: no column "nope"; the table has aggregateid, type, n, payload, box`, `route.field: column "n" must be a text`,
		`columns.type: column "type" must be a text`, `placement gone:header: no column "gone"`, `placement n:partition: column "n" must be of type integer`,
		`columns.headers: column "type" must be of type json`, `columns.schema_version: column "type" must be of type integer`,
		`column "box": its type (oid 603) has no form`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not in the report: %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestValidateReportsEveryProblem(t *testing.T) {
	t.Parallel()
	c := Config{
		Route: Routing{Regex: "(?=x)", NoMatch: "x", DefaultTopic: "t"}, Key: KeyFormat{Format: "x", Schemas: true}, Value: ValueFormat{Format: "raw", Schemas: true},
		Headers: Headers{Position: "maybe", Schemas: true}, Placements: []string{"a", "type:envelope,x:envelope:type", "x:header:walrelay.lsn"}, MissingColumn: "x",
		Filter: Filter{Mode: "drop"}, Types: Types{Time: "x"},
	}
	err := c.Validate()
	for _, want := range []string{
		"route.regex", "look-ahead", "route.no_match", "route.default_topic", "key.format", "key.schemas", "value.schemas", "headers.position",
		"headers.schemas", `placement "a"`, "a member \"type\" already", "an envelope is JSON", "is walrelay's own", "missing_column", "filter.mode drop", "types.time",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not in the report: %s", want)
		}
	}
	if err := (Config{Columns: Columns{SchemaVersion: "v"}}).Validate(); err == nil || !strings.Contains(err.Error(), "needs an envelope") {
		t.Errorf("schema_version: %v", err)
	}
	if (Config{}).Validate() != nil {
		t.Error("the zero Config is not valid")
	}
	if err := (Config{Preset: "x"}).Validate(); err == nil || !strings.Contains(err.Error(), "debezium, snake") {
		t.Errorf("preset x: %v", err)
	}
}

func TestPoison(t *testing.T) {
	t.Parallel()
	doc := jsonb("", `{}`)
	routed := func(value any) []col {
		return []col{uuid("id", testID), text("aggregatetype", value), text("aggregateid", "k"), doc.as("payload")}
	}
	for _, c := range []struct {
		name    string
		config  Config
		columns []col
		reason  string
	}{
		{"NULL routing value", Config{}, routed(nil), "aggregatetype is NULL"},
		{"space", Config{}, routed("a b"), "illegal topic name"},
		{"slash", Config{}, routed("a/b"), "illegal topic name"},
		{"not ASCII", Config{}, routed("é"), "illegal topic name"},
		{"too long", Config{}, routed(strings.Repeat("x", 237)), "has 250 bytes, the limit is 249"},
		{"newline defeats the dot", Config{}, routed("a\nb"), "illegal topic name"},
		{"dot", Config{Route: Routing{Replacement: "${routedByValue}"}}, routed("."), "cannot be . or .."},
		{"empty", Config{Route: Routing{Replacement: "${routedByValue}"}}, routed(""), "it is empty"},
		{"no match", Config{Route: Routing{Regex: "(?<routedByValue>[a-z]+)", NoMatch: "error"}}, routed("Order"), "does not match route.regex"},
		{"negative partition", Config{Placements: []string{"p:partition"}}, outbox(doc, col{name: "p", oid: oidInt4, modifier: -1, value: "-1"}), "partition"},
		{"headers not an object", Config{Columns: Columns{Headers: "h"}}, outbox(doc, jsonb("h", "[1]")), "is not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _, err := route(t, c.config, c.columns)
			if _, isPoison := err.(*PoisonError); !isPoison || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("error %v, want poison with %q", err, c.reason)
			}
			if m.Key == nil {
				t.Error("the key is not there for the dead letter")
			}
		})
	}
}

func TestNoMatchDefault(t *testing.T) {
	t.Parallel()
	c := Config{Route: Routing{Regex: "(?<routedByValue>[a-z]+)", NoMatch: "default", DefaultTopic: "unrouted"}}
	if m := published(t, c, outbox(jsonb("", "{}"))); m.Topic != "unrouted" {
		t.Errorf("topic %s", m.Topic)
	}
	c.Route.DefaultTopic = "a b"
	if err := c.Validate(); err == nil {
		t.Error("an illegal default topic is accepted")
	}
}

// A row of another shape, or in binary, is about the stream and not poison.
func TestRowThatDoesNotFit(t *testing.T) {
	t.Parallel()
	columns := outbox(jsonb("", "{}"))
	rel := relationOf(columns)
	r, err := Bind(Config{}, rel, Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	binary := rowOf(rel, columns)
	binary.Columns[4].Kind = decoder.ColumnBinary
	for name, row := range map[string]*decoder.Row{"shape": {Columns: make([]decoder.Column, 3)}, "binary": binary} {
		var m Message
		_, err := r.Route(row, testIdentity, &m)
		var poison *PoisonError
		if err == nil || errors.As(err, &poison) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// An empty value is not null, whatever the slice behind it.
func TestEmptyIsNotNull(t *testing.T) {
	t.Parallel()
	columns := outbox(text("", ""))
	rel := relationOf(columns)
	r, err := Bind(Config{}, rel, Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	row := rowOf(rel, columns)
	row.Columns[2].Data, row.Columns[4].Data = nil, nil
	var m Message
	if _, err := r.Route(row, testIdentity, &m); err != nil || m.Key == nil || m.Value == nil {
		t.Errorf("key %v, value %v, error %v", m.Key, m.Value, err)
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Oldest: 1_000_000_000_000, Newest: 2_000_000_000_000}
	for _, c := range []struct {
		oid      uint32
		value    any
		want     int64
		replaced bool
	}{
		{oidTimestamp, "2019-03-28 01:02:03.456789", 1553734923456, false},
		{oidTimestamptz, "2019-03-28 01:02:03.456789+00", 1553734923456, false},
		{oidDate, "2019-03-28", 1553731200000, false},
		{oidInt8, "1553734923456", 1553734923456, false},
		{oidTimestamp, nil, commitMillis, false},
		{oidTimestamp, "1999-12-31 23:59:59", commitMillis, true}, // before the bounds
		{oidTimestamp, "2040-01-01 00:00:00", commitMillis, true}, // behind them
		{oidTimestamp, "infinity", commitMillis, true},
		{oidTimestamp, "-infinity", commitMillis, true},
		{oidInt8, "-1", commitMillis, true},
	} {
		columns := outbox(jsonb("", "{}"), col{name: "at", oid: c.oid, modifier: -1, value: c.value})
		rel := relationOf(columns)
		r, err := Bind(Config{Columns: Columns{Timestamp: "at"}}, rel, Catalog{})
		if err != nil {
			t.Fatal(err)
		}
		r.Bounds = bounds
		var m Message
		if _, err := r.Route(rowOf(rel, columns), testIdentity, &m); err != nil || m.Time != c.want || m.TimeReplaced != c.replaced {
			t.Errorf("%v of type %d: time %d, replaced %v (%v); want %d, %v", c.value, c.oid, m.Time, m.TimeReplaced, err, c.want, c.replaced)
		}
	}
	if (Bounds{}).include(-1) || !(Bounds{}).include(0) || (Bounds{}).include(infinityMicros/1000) {
		t.Error("without bounds the years 1970 to 9999 are to be accepted")
	}
}

// A commit that is long ago gives the header its time, and the record the present one. A column's time is the application's.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	const later = commitMillis + 1000
	for _, c := range []struct {
		name  string
		late  int64 // relative to the commit
		at    any   // the timestamp column; nil: NULL
		want  int64
		noted bool
	}{
		{"recent", 0, nil, commitMillis, false},
		{"late", 1, nil, later, true},
		{"late, with a time of its own", 1, "1999-12-31 23:59:59", 946684799000, false},
		{"late, with an impossible time of its own", 1, "infinity", later, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			columns := outbox(jsonb("", "{}"), col{name: "at", oid: oidTimestamp, modifier: -1, value: c.at})
			rel := relationOf(columns)
			r, err := Bind(Config{Columns: Columns{Timestamp: "at"}}, rel, Catalog{})
			if err != nil {
				t.Fatal(err)
			}
			r.Bounds = Bounds{Late: commitMillis + c.late, Now: later}
			var m Message
			if _, err := r.Route(rowOf(rel, columns), testIdentity, &m); err != nil || m.Time != c.want || m.Late != c.noted {
				t.Errorf("time %d, late %v (%v)", m.Time, m.Late, err)
			}
			last := len(m.Headers) - 1
			if m.Headers[last].Name != HeaderPosition {
				t.Errorf("headers %v", m.Headers)
			}
			at, err := time.Parse(TimeFormat, string(m.Headers[last-1].Value))
			if noted := m.Headers[last-1].Name == HeaderTime; noted != c.noted || noted && (err != nil || at.UnixMicro() != testIdentity.Time) {
				t.Errorf("headers %s, %v", m.Headers, err)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter    Filter
		published string // of OrderCreated, OrderShipped, UserCreated
	}{
		{Filter{}, "OrderCreated OrderShipped UserCreated"},
		{Filter{Types: []string{"Created"}}, "OrderCreated UserCreated"},
		{Filter{Values: []string{"Order"}}, "OrderCreated OrderShipped"},
		{Filter{Types: []string{"Created"}, Values: []string{"Order"}}, "OrderCreated"},
		{Filter{Types: []string{"Created"}, Values: []string{"Order"}, Mode: "drop"}, "OrderShipped UserCreated"},
		{Filter{Types: []string{"Created"}, Mode: "drop"}, "OrderShipped"},
	} {
		var got []string
		for _, event := range [][2]string{{"Order", "Created"}, {"Order", "Shipped"}, {"User", "Created"}} {
			columns := outbox(jsonb("", "{}"))
			columns[1].value, columns[3].value = event[0], event[1]
			_, verdict, err := route(t, Config{Filter: c.filter}, columns)
			if err != nil {
				t.Fatal(err)
			}
			if verdict == Publish {
				got = append(got, event[0]+event[1])
			}
		}
		if strings.Join(got, " ") != c.published {
			t.Errorf("%+v publishes %v, want %s", c.filter, got, c.published)
		}
	}
}

func TestHeadersColumn(t *testing.T) {
	t.Parallel()
	c := Config{Columns: Columns{Headers: "h"}, Headers: Headers{Position: "off"}}
	for doc, want := range map[any][]string{
		nil:    nil,
		"null": nil,
		"{}":   nil,
		`{"a": "x\u00e9", "b": null, "c": [1, 2], "d": 1.50, "walrelay.lsn": "forged", "e": true, "": ""}`: {"a=xé", "b=NULL", "c=[1,2]", "d=1.50", "e=true", "="},
	} {
		got := recordOf(published(t, c, outbox(jsonb("", "{}"), jsonb("h", doc)))).Headers
		if diff := cmp.Diff(append([]string{idHeader}, want...), got); diff != "" {
			t.Errorf("%v: %s", doc, diff)
		}
	}
}

func TestTracing(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := Config{Columns: Columns{TraceParent: "tp", TraceContext: "tc"}, Headers: Headers{Position: "off"}}
	for _, test := range []struct {
		parent, context any
		want            []string
	}{
		{nil, nil, nil},
		{"", "", nil},
		{parent, nil, []string{"traceparent=" + parent}},
		{nil, "#Sun Nov 29 00:00:00 UTC 2026\ntraceparent=" + parent + "\ntracestate=a\\=b\nuber-trace-id=1\n",
			[]string{"traceparent=" + parent, "tracestate=a=b"}},
		{nil, "! x\r\n  baggage : k\\=v,\\\r\n   l\\u003dw\\t\nx", []string{"baggage=k=v,l=w\t"}},
		{nil, "tracestate", []string{"tracestate="}},
	} {
		got := recordOf(published(t, c, outbox(jsonb("", "{}"), text("tp", test.parent), text("tc", test.context)))).Headers
		if diff := cmp.Diff(append([]string{idHeader}, test.want...), got); diff != "" {
			t.Errorf("%q, %q: %s", test.parent, test.context, diff)
		}
	}
}

// Routed values that never end do not fill the memory, and the topics stay right.
func TestTopicCacheIsBounded(t *testing.T) {
	t.Parallel()
	topics, _ := newTopicRouter(Config{}.resolved(nil).Route, nil)
	for i := range 3 * maxCachedTopics {
		value := fmt.Sprint("v", i%(maxCachedTopics+1))
		entry, err := topics.route([]byte(value))
		if err != nil || entry.topic != "outbox.event."+value {
			t.Fatalf("%s: %v %v", value, entry, err)
		}
		if len(topics.cache) > maxCachedTopics {
			t.Fatalf("%d topics are kept", len(topics.cache))
		}
	}
}

// A message is used again and again: nothing of the row before may remain.
func TestMessageIsReused(t *testing.T) {
	t.Parallel()
	columns := outbox(jsonb("", "{}"), col{name: "p", oid: oidInt4, modifier: -1, value: "3"}, text("n", "x"))
	rel := relationOf(columns)
	r, err := Bind(Config{Placements: []string{"p:partition,n:header"}, Headers: Headers{Nulls: "omit"}}, rel, Catalog{})
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	if _, err := r.Route(rowOf(rel, columns), testIdentity, &m); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 4, 5, 6} {
		columns[i].value = nil
	}
	if _, err := r.Route(rowOf(rel, columns), lsn.Identity{Source: 1, Commit: 0x10, Time: 5000, Ordinal: 1}, &m); err != nil {
		t.Fatal(err)
	}
	want := record{"outbox.event.Order", "NULL", "NULL", []string{idHeader, "walrelay.lsn=00000001:0/10:5000:1"}, -1, 5}
	if diff := cmp.Diff(want, recordOf(&m)); diff != "" {
		t.Error(diff)
	}
}
