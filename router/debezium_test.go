package router

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// connector is a configuration as people have it, with the options to test added.
func connector(options map[string]string) map[string]string {
	all := map[string]string{
		"name": "orders", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
		"database.hostname": "db", "database.password": "s3cret", "topic.prefix": "shop", "table.include.list": "public.outbox",
		"transforms": "outbox", "transforms.outbox.type": eventRouterClass,
		"key.converter": stringConverter, "value.converter": stringConverter,
	}
	maps.Copy(all, options)
	return all
}

func router(options map[string]string) map[string]string {
	prefixed := map[string]string{}
	for name, value := range options {
		prefixed["transforms.outbox."+name] = value
	}
	return prefixed
}

func TestFromDebezium(t *testing.T) {
	t.Parallel()
	schemaless := map[string]string{"value.converter": jsonConverter, "value.converter.schemas.enable": "false"}
	with := func(a, b map[string]string) map[string]string {
		all := maps.Clone(a)
		maps.Copy(all, b)
		return all
	}
	for _, c := range []struct {
		name    string
		options map[string]string
		want    Config
	}{
		{"defaults", nil, Config{}},
		{"columns", router(map[string]string{
			"table.field.event.id": "a", "table.field.event.key": "b", "table.field.event.type": "c", "table.field.event.payload": "d",
			"table.field.event.timestamp": "e", "route.by.field": "f", "tracing.span.context.field": "g",
		}), Config{Columns: Columns{ID: "a", Key: "b", Type: "c", Payload: "d", Timestamp: "e", TraceContext: "g"}, Route: Routing{Field: "f"}}},
		{"route", router(map[string]string{"route.topic.regex": "(.*)", "route.topic.replacement": "$1.events"}),
			Config{Route: Routing{Regex: "(.*)", Replacement: "$1.events"}}},
		{"placement", router(map[string]string{"table.fields.additional.placement": "type:header:t", "table.field.additional.missing": "IGNORE "}),
			Config{Placements: []string{"type:header:t"}, MissingColumn: "ignore"}},
		{"placement before 3.6", router(map[string]string{"table.fields.additional.error.on.missing": "false"}), Config{MissingColumn: "ignore"}},
		{"payload", with(schemaless, router(map[string]string{"table.expand.json.payload": "true", "route.tombstone.on.empty.payload": "TRUE"})),
			Config{Value: ValueFormat{Format: "json", Expand: true, TombstoneOnEmpty: true}}},
		{"JsonConverter has schemas unless told otherwise", map[string]string{"value.converter": jsonConverter, "key.converter": jsonConverter, "header.converter": jsonConverter},
			Config{Key: KeyFormat{Format: "json", Schemas: true}, Value: ValueFormat{Format: "json", Schemas: true}, Headers: Headers{Format: "json", Schemas: true}}},
		{"schema version", with(map[string]string{"value.converter": jsonConverter}, router(map[string]string{"table.field.event.schema.version": "v", "table.fields.additional.placement": "type:envelope"})),
			Config{Columns: Columns{SchemaVersion: "v"}, Placements: []string{"type:envelope"}, Value: ValueFormat{Format: "json", Schemas: true}}},
		{"schema version without an envelope has no effect", router(map[string]string{"table.field.event.schema.version": "v"}), Config{}},
		{"envelope of StringConverter", router(map[string]string{"table.fields.additional.placement": "type:envelope"}),
			Config{Placements: []string{"type:envelope"}, Value: ValueFormat{Format: "json"}}},
		{"bytes", map[string]string{"value.converter": binaryDataConverter}, Config{Value: ValueFormat{Format: "bytes"}}},
		{"bytes or JSON", map[string]string{
			"value.converter": binaryDataConverter, "value.converter.delegate.converter.type": jsonConverter,
			"value.converter.delegate.converter.type.schemas.enable": "false",
		}, Config{Value: ValueFormat{Format: "bytes-or-json"}}},
		{"bytes or text", map[string]string{"value.converter": binaryDataConverter, "value.converter.delegate.converter.type": stringConverter}, Config{}},
		{"Debezium's ByteArrayConverter does not see the bytea of Postgres", map[string]string{
			"value.converter": dbzBytesConverter, "value.converter.delegate.converter.type": jsonConverter,
		}, Config{Value: ValueFormat{Format: "json", Schemas: true}}},
		{"types", map[string]string{"decimal.handling.mode": "string", "time.precision.mode": "connect", "binary.handling.mode": "hex", "interval.handling.mode": "string"},
			Config{Types: Types{Decimal: "string", Time: "connect", Binary: "hex", Interval: "string"}}},
		{"another alias among other transforms", map[string]string{"transforms": "a, b", "transforms.a.type": "x.Filter", "transforms.b.type": eventRouterClass, "transforms.b.route.by.field": "f"},
			Config{Route: Routing{Field: "f"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Preset, c.want.Value.SchemaPrefix = PresetDebezium, "shop"
			got, findings := FromDebezium(connector(c.options))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			for _, f := range findings {
				if f.Answer == Invalid || f.Answer == Unknown {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func answers(options map[string]string) map[string]Finding {
	_, findings := FromDebezium(options)
	byName := map[string]Finding{}
	for _, f := range findings {
		byName[f.Property] = f
	}
	return byName
}

func TestAnswersToOptions(t *testing.T) {
	t.Parallel()
	for property, c := range map[string]struct {
		value string
		want  Answer
	}{
		"transforms.outbox.table.op.invalid.behavior":         {"fatal", NotNeeded},
		"transforms.outbox.table.fields.additional.placement": {"type", Invalid},
		"transforms.outbox.table.field.additional.missing":    {"maybe", Invalid},
		"transforms.outbox.table.json.payload.null.behavior":  {"optional_bytes", NotNeeded},
		"transforms.outbox.field.name.adjustment.mode":        {"avro", NotSupported},
		"transforms.outbox.tracing.operation.name":            {"x", NotNeeded},
		"transforms.outbox.predicate":                         {"p", NotNeeded},
		"transforms.outbox.nonsense":                          {"x", Unknown},
		"transforms.unused.type":                              {"x", NotNeeded},
		"predicates.p.type":                                   {"x", NotNeeded},
		"value.converter.decimal.format":                      {"NUMERIC", NotSupported},
		"header.converter":                                    {"x.Y", NotSupported},
		"time.precision.mode":                                 {"sometimes", Invalid},
		"database.hostname":                                   {"db", Elsewhere},
		"database.somedriver":                                 {"x", NotSupported},
		"slot.name":                                           {"s", Elsewhere},
		"slot.drop.on.stop":                                   {"true", NotSupported},
		"slot.max.retries":                                    {"6", NotNeeded},
		"heartbeat.interval.ms":                               {"1000", NotNeeded},
		"snapshot.mode":                                       {"initial", NotNeeded},
		"producer.override.acks":                              {"1", Elsewhere},
		"topic.creation.default.partitions":                   {"6", Elsewhere},
		"errors.tolerance":                                    {"all", NotSupported},
		"hstore.handling.mode":                                {"map", NotSupported},
		"no.such.property":                                    {"x", Unknown},
	} {
		if got := answers(connector(map[string]string{property: c.value}))[property]; got.Answer != c.want || got.Note == "" {
			t.Errorf("%s=%s: %+v, want %s", property, c.value, got, c.want)
		}
	}
	if got := answers(connector(map[string]string{"transforms.outbox.table.op.invalid.behavior": "boom"})); got["transforms.outbox.table.op.invalid.behavior"].Answer != Invalid {
		t.Error("Debezium refuses the word boom, and so must we")
	}
	if got := answers(map[string]string{}); got["transforms"].Answer != NotSupported || got["value.converter"].Answer != NotSupported {
		t.Errorf("without a router and converters: %+v", got)
	}
}

// The properties of the Postgres connector 3.6.1.Final, from its sources.
const connectorProperties = `binary.handling.mode column.exclude.list column.include.list column.propagate.source.type connector.class converters
custom.metric.tags database.dbname database.hostname database.initial.statements database.password database.port database.sslcert database.sslfactory
database.sslkey database.sslmode database.sslpassword database.sslrootcert database.tcpKeepAlive database.user datatype.propagate.source.type
decimal.handling.mode errors.max.retries event.converting.failure.handling.mode event.processing.failure.handling.mode executor.shutdown.timeout.ms
extended.headers.enabled field.name.adjustment.mode flush.lsn.source guardrail.collections.limit.action guardrail.collections.max
heartbeat.action.query heartbeat.interval.ms heartbeat.topics.prefix hstore.handling.mode include.schema.changes include.schema.comments
include.unknown.datatypes incremental.snapshot.allow.schema.changes incremental.snapshot.chunk.size incremental.snapshot.watermarking.strategy
interval.handling.mode legacy.snapshot.max.threads lsn.flush.mode lsn.flush.timeout.action lsn.flush.timeout.ms max.batch.size max.queue.size
max.queue.size.in.bytes message.key.columns message.prefix.exclude.list message.prefix.include.list money.fraction.digits
multi.partition.mode notification.enabled.channels notification.sink.topic.name offset.mismatch.strategy openlineage.integration.enabled plugin.name
poll.interval.ms post.processors provide.transaction.metadata publication.autocreate.mode publication.name publish.via.partition.root query.fetch.size
queue.provider.type read.only replica.identity.autoset.values retriable.restart.connector.wait.ms schema.exclude.list schema.include.list
schema.name.adjustment.mode schema.refresh.mode signal.data.collection signal.enabled.channels signal.poll.interval.ms skip.messages.without.change
skipped.operations slot.drop.on.stop slot.failover slot.max.retries slot.name slot.retry.delay.ms slot.stream.params snapshot.delay.ms
snapshot.fetch.size snapshot.include.collection.list snapshot.isolation.mode snapshot.locking.mode snapshot.max.threads snapshot.mode
snapshot.query.mode snapshot.select.statement.overrides snapshot.tables.order.by.row.count sourceinfo.struct.maker statistics.metrics.enabled
status.update.interval.ms streaming.delay.ms table.exclude.list table.ignore.builtin table.include.list task.id tasks.max time.precision.mode
tombstones.on.delete topic.cache.size topic.delimiter topic.heartbeat.prefix topic.naming.strategy topic.prefix topic.transaction
transaction.metadata.factory unavailable.value.placeholder xmin.fetch.interval.ms`

func TestEveryPropertyIsKnown(t *testing.T) {
	t.Parallel()
	for _, property := range strings.Fields(connectorProperties) {
		if got := answers(connector(map[string]string{property: "x"}))[property]; got.Answer == Unknown || got.Answer == "" {
			t.Errorf("%s is not known", property)
		}
	}
}

// Nothing is dropped in silence, whatever the options, and no value of an option is repeated in a note.
func TestEveryOptionHasAnAnswer(t *testing.T) {
	t.Parallel()
	names := append(strings.Fields(connectorProperties), "transforms", "transforms.outbox.type", "transforms.outbox.route.by.field", "transforms.outbox.x",
		"key.converter", "key.converter.schemas.enable", "value.converter", "value.converter.schemas.enable", "value.converter.delegate.converter.type",
		"header.converter", "predicates", "x.y")
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.MapOf(rapid.SampledFrom(names), rapid.SampledFrom([]string{
			"outbox", eventRouterClass, jsonConverter, stringConverter, binaryDataConverter, "true", "s3cret",
		})).Draw(t, "options")
		found := answers(options)
		for property := range options {
			f, ok := found[property]
			if !ok || f.Answer == "" {
				t.Fatalf("%s has no answer", property)
			}
			if strings.Contains(f.Note, "s3cret") && !strings.Contains(property, "converter") {
				t.Fatalf("%s: the note repeats the value: %s", property, f.Note)
			}
		}
	})
}
