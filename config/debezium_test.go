package config

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/router"
)

// connector is a connector that needs no decision, with more options.
func connector(more map[string]string) map[string]string {
	all := map[string]string{
		"name": "orders", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
		"database.hostname": "db", "database.user": "dbz", "database.password": "s3cr3t", "database.dbname": "shop", "topic.prefix": "shop",
		"slot.name": "orders", "table.include.list": "public.outbox",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
		"transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
		"producer.override.bootstrap.servers": "k:9092",
	}
	maps.Copy(all, more)
	maps.DeleteFunc(all, func(_, value string) bool { return value == absent })
	return all
}

// absent takes an option away.
const absent = "\x00"

// The whole file, as a person gets it.
func TestImportedFile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/debezium/connector.json")
	if err != nil {
		t.Fatal(err)
	}
	options, err := router.ParseDebezium(content)
	if err != nil {
		t.Fatal(err)
	}
	got := FromDebezium(options, nil, nil).YAML()
	want, err := os.ReadFile("testdata/debezium/walrelay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		if err := os.WriteFile(t.ArtifactDir()+"/walrelay.yaml", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Error(diff)
	}
}

// What each property becomes in the configuration, and what a person is asked.
func TestFromDebezium(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options map[string]string
		want    func(*Config)
		asked   string // properties, with blanks between them
	}{
		{"nothing special", nil, func(*Config) {}, ""},

		{"address", map[string]string{"database.hostname": "::1", "database.port": "6432", "database.user": "a@b/c", "database.sslmode": "VERIFY-FULL"},
			func(c *Config) {
				c.Postgres.URL = NewConnString("postgres://a%40b%2Fc@[::1]:6432/shop?sslmode=verify-full")
			}, ""},
		{"no address", map[string]string{"database.hostname": absent, "database.dbname": absent, "database.user": absent},
			func(c *Config) { c.Postgres.URL = NewConnString("postgres://postgres.invalid:5432/postgres") }, "database.dbname database.hostname"},
		{"address that is none", map[string]string{"database.port": "five", "database.sslmode": "yes"}, func(*Config) {}, "database.port database.sslmode"},
		{"address from a config provider", map[string]string{"database.hostname": "${file:/etc/db:host}", "database.user": "${env:DB_USER}"},
			func(c *Config) { c.Postgres.URL = NewConnString("postgres://postgres.invalid:5432/shop") }, "database.hostname database.user"},
		{"certificates", map[string]string{"database.sslrootcert": "/ca.pem", "database.sslcert": "/c.pem", "database.sslkey": "/k.pk8", "database.sslfactory": "x.Y"},
			func(*Config) {}, "database.sslcert database.sslfactory database.sslkey database.sslrootcert"},

		{"slot by default", map[string]string{"slot.name": absent}, func(c *Config) { c.Postgres.Slot, c.Postgres.Publication = "debezium", "walrelay_debezium" }, ""},
		{"slot with a long name", map[string]string{"slot.name": strings.Repeat("s", 63)}, func(c *Config) {
			c.Postgres.Slot, c.Postgres.Publication = strings.Repeat("s", 63), "walrelay_"+strings.Repeat("s", 54)
		}, ""},
		{"publication", map[string]string{"publication.name": "dbz", "publication.autocreate.mode": "all_tables", "slot.failover": "true", "slot.drop.on.stop": "false"}, func(*Config) {}, ""},
		{"another plugin", map[string]string{"plugin.name": absent}, func(*Config) {}, "plugin.name"},
		{"another connector", map[string]string{"connector.class": "io.debezium.connector.mysql.MySqlConnector"}, func(*Config) {}, "connector.class"},

		{"tables", map[string]string{"table.include.list": ` public\.outbox , sales.Ereignis_ä,c[.]d`},
			func(c *Config) {
				c.Tables = append(c.Tables, c.Tables[0], c.Tables[0])
				c.Tables[1].Name, c.Tables[2].Name = "sales.Ereignis_ä", "c.d"
			}, ""},
		{"patterns of tables", map[string]string{"table.include.list": "public.outbox,tenant_.*.outbox"}, func(*Config) {}, "table.include.list"},
		{"no tables", map[string]string{"table.include.list": absent, "schema.include.list": "public"}, func(*Config) {}, "table.include.list"},
		{"router under a predicate", map[string]string{"transforms.outbox.predicate": "isOutbox", "predicates": "isOutbox"}, func(*Config) {}, "transforms.outbox.predicate"},
		{"messages", map[string]string{"table.include.list": absent, "publication.autocreate.mode": "no_tables", "message.prefix.include.list": "outbox", "message.prefix.exclude.list": "x"},
			func(c *Config) {
				route := c.Tables[0].Route
				c.Tables = []Table{}
				c.Messages.Enabled, c.Messages.Prefix, c.Messages.Topics, c.Messages.Route = true, "outbox", []string{"outbox.event.*"}, route
			}, ""},
		{"messages to any topic", map[string]string{"message.prefix.include.list": "outbox", "transforms.outbox.route.topic.replacement": "${routedByValue}"},
			func(c *Config) { c.Tables[0].Route.Route.Replacement = "${routedByValue}" }, "message.prefix.include.list"},

		{"converters of the worker", map[string]string{"key.converter": absent, "value.converter": absent}, func(*Config) {}, "key.converter value.converter"},
		{"Avro", map[string]string{"value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": "http://r"},
			func(*Config) {}, "value.converter value.converter.schema.registry.url"},
		{"another transform", map[string]string{"transforms": "outbox,drop", "transforms.drop.type": "x.Filter"}, func(*Config) {}, "transforms.drop.type"},
		{"no router", map[string]string{"transforms": absent, "transforms.outbox.type": absent}, func(*Config) {}, "transforms"},
		{"masked columns", map[string]string{"column.mask.with.10.chars": "public.outbox.payload"}, func(*Config) {}, "column.mask.with.10.chars"},
		{"regex that is none", map[string]string{"transforms.outbox.route.topic.regex": "("},
			func(c *Config) { c.Tables[0].Route.Route.Regex = "(" }, "tables[0]"},
		{"route from a config provider", map[string]string{"transforms.outbox.route.by.field": "${env:FIELD}"},
			func(c *Config) { c.Tables[0].Route.Route.Field = "${env:FIELD}" }, "transforms.outbox.route.by.field"},
		{"what has no counterpart and needs none", map[string]string{
			"snapshot.mode": "initial", "tombstones.on.delete": "true", "heartbeat.interval.ms": "5000", "heartbeat.action.query": "INSERT", "errors.tolerance": "all",
			"errors.log.enable": "true", "exactly.once.support": "required", "max.batch.size": "20480", "database.initial.statements": "SELECT 1", "hstore.handling.mode": "map",
		}, func(*Config) {}, ""},
		{"a typing error", map[string]string{"slot.nmae": "x", "hearbeat.interval.ms": "x", "producer.override.lniger.ms": "x"}, func(*Config) {}, "hearbeat.interval.ms producer.override.lniger.ms"},

		{"topics", map[string]string{
			"topic.creation.default.partitions": "6", "topic.creation.default.replication.factor": "-1", "topic.creation.default.cleanup.policy": "compact",
			"topic.creation.default.retention.ms": "1", "topic.creation.default.include": ".*", "topic.creation.enable": "true",
		}, func(c *Config) {
			c.Kafka.Topics.Create, c.Kafka.Topics.Partitions, c.Kafka.Topics.ReplicationFactor = true, 6, -1
			c.Kafka.Topics.Config = map[string]string{"cleanup.policy": "compact", "retention.ms": "1"}
		}, ""},
		{"groups of topics", map[string]string{"topic.creation.groups": "big", "topic.creation.big.partitions": "60", "topic.creation.default.partitions": "many"},
			func(c *Config) { c.Kafka.Topics.Create = true }, "topic.creation.big.partitions topic.creation.default.partitions topic.creation.groups"},

		{"no brokers", map[string]string{"producer.override.bootstrap.servers": absent}, func(c *Config) { c.Kafka.Brokers = []string{"kafka.invalid:9092"} },
			"producer.override.bootstrap.servers"},
		{"producer", map[string]string{
			"producer.override.bootstrap.servers": "a:1, b:2", "producer.override.client.id": "relay", "producer.override.compression.type": "ZSTD",
			"producer.override.request.timeout.ms": "120000", "producer.override.metadata.max.age.ms": "1", "producer.override.acks": "all",
			"producer.override.linger.ms": "20", "producer.override.batch.size": "262144", "producer.override.max.request.size": "10485760",
			"producer.override.buffer.memory": "1", "producer.override.retries": "3", "producer.override.enable.idempotence": "true", "producer.override.retry.backoff.max.ms": "1",
		}, func(c *Config) {
			c.Kafka.Brokers, c.Kafka.ClientID, c.Kafka.Compression = []string{"a:1", "b:2"}, "relay", "zstd"
			c.Kafka.RequestTimeout, c.Kafka.MetadataMaxAge = 120e9, 100e6
		}, ""},
		{"producer that changes records", map[string]string{"producer.override.partitioner.class": "x.Y", "producer.override.interceptor.classes": "x.Y", "producer.override.acks": "1"},
			func(*Config) {}, "producer.override.interceptor.classes producer.override.partitioner.class"},
		{"codec that is none", map[string]string{"producer.override.compression.type": "brotli"}, func(c *Config) { c.Kafka.Compression = "brotli" }, "kafka.compression"},
		{"TLS", map[string]string{"producer.override.security.protocol": "ssl", "producer.override.ssl.endpoint.identification.algorithm": "https",
			"producer.override.ssl.truststore.type": "PEM", "producer.override.ssl.truststore.location": "/ca.pem", "producer.override.ssl.keystore.location": "/k.jks"},
			func(c *Config) { c.Kafka.TLS.Enabled = true }, "producer.override.ssl.keystore.location producer.override.ssl.truststore.location"},
		{"TLS that verifies nothing", map[string]string{"producer.override.security.protocol": "SSL", "producer.override.ssl.endpoint.identification.algorithm": ""},
			func(c *Config) { c.Kafka.TLS.Enabled = true }, "producer.override.ssl.endpoint.identification.algorithm"},
		{"login", map[string]string{"producer.override.security.protocol": "SASL_PLAINTEXT", "producer.override.sasl.mechanism": "PLAIN",
			"producer.override.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule required password="s3cr3t" username="a\"b";`},
			func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "PLAIN", Username: `a"b`} }, ""},
		{"login from a config provider", map[string]string{"producer.override.sasl.mechanism": "SCRAM-SHA-256", "producer.override.sasl.jaas.config": `${file:/s3cr3t:jaas}`},
			func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "SCRAM-SHA-256", Username: "unknown"} }, "producer.override.sasl.jaas.config"},
		{"login that there is not", map[string]string{"producer.override.sasl.mechanism": "OAUTHBEARER", "producer.override.sasl.oauthbearer.token.endpoint.url": "http://x"},
			func(*Config) {}, "producer.override.sasl.mechanism producer.override.sasl.oauthbearer.token.endpoint.url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			options := connector(c.options)
			got := FromDebezium(options, nil, nil)
			want := Default()
			want.Postgres.URL, want.Postgres.Slot, want.Postgres.Publication = NewConnString("postgres://dbz@db:5432/shop"), "orders", "walrelay_orders"
			want.Tables[0].Route = router.Config{Preset: "debezium", Value: router.ValueFormat{SchemaPrefix: "shop"}}
			want.Kafka.Brokers = []string{"k:9092"}
			c.want(&want)
			if diff := cmp.Diff(want, got.Config, cmp.AllowUnexported(Config{}), ignoreSources); diff != "" {
				t.Error(diff)
			}
			var asked []string
			for _, f := range got.Decisions() {
				asked = append(asked, f.Property)
			}
			if !slices.Equal(asked, strings.Fields(c.asked)) {
				t.Errorf("a person is asked for %q, want %q", asked, c.asked)
			}
			checkImport(t, got, options)
		})
	}
}

var ignoreSources = cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "from" }, cmp.Ignore())

// checkImport checks what goes for every translation: an answer for each property, no secret, and a file that is the
// configuration, which nothing is wrong with unless somebody is asked.
func checkImport(t interface {
	Helper()
	Errorf(string, ...any)
}, i Import, options map[string]string) {
	t.Helper()
	answered := map[string]bool{}
	for _, f := range i.Findings {
		answered[f.Property] = true
		if f.Answer == router.Elsewhere || f.Note == "" {
			t.Errorf("%s is %s: %q", f.Property, f.Answer, f.Note)
		}
	}
	text := i.YAML()
	for property := range options {
		if !answered[property] || !strings.Contains(text, "#   "+printable(property)+": ") {
			t.Errorf("no answer to %s", property)
		}
	}
	if strings.Contains(text, "s3cr3t") {
		t.Errorf("a secret is in the file:\n%s", text)
	}
	document, err := parseYAML([]byte(text))
	if err != nil {
		t.Errorf("%v:\n%s", err, text)
		return
	}
	loaded := Default()
	loaded.from = map[string]string{}
	l := loader{config: &loaded, set: map[string]bool{}}
	f := file{loader: &l, name: "f"}
	f.section(document, reflect.ValueOf(&loaded).Elem(), "")
	if diff := cmp.Diff(i.Config, loaded, cmp.AllowUnexported(Config{}), ignoreSources); diff != "" || len(l.problems) > 0 {
		t.Errorf("the file is another configuration: %v\n%s\n%s", l.problems, diff, text)
	}
	loaded.Kafka.SASL.Password = NewSecret("x")
	if loaded.Kafka.SASL.Mechanism == "" {
		loaded.Kafka.SASL = SASL{}
	}
	if err := check(loaded); err != nil && len(i.Decisions()) == 0 {
		t.Errorf("nobody is asked, and the configuration is wrong: %v", err)
	}
}

// What a connector takes from its worker.
func TestFromDebeziumWithWorker(t *testing.T) {
	t.Parallel()
	worker := map[string]string{
		"bootstrap.servers": "w:9092", "key.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false",
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
		"producer.compression.type": "lz4", "producer.sasl.jaas.config": `x required username="u" password="s3cr3t";`, "group.id": "connect", "offset.flush.interval.ms": "60000",
	}
	options := connector(map[string]string{
		"producer.override.bootstrap.servers": absent, "key.converter": absent, "producer.override.compression.type": "zstd",
		"producer.override.sasl.mechanism": "PLAIN",
	})
	got := FromDebezium(options, worker, nil)
	route := got.Config.Tables[0].Route
	if route.Key != (router.KeyFormat{Format: "json"}) || route.Value.Format != "" {
		t.Errorf("key %+v of the worker, value %+v of the connector", route.Key, route.Value)
	}
	k := got.Config.Kafka
	if !slices.Equal(k.Brokers, []string{"w:9092"}) || k.Compression != "zstd" || k.SASL.Username != "u" || k.SASL.Mechanism != "PLAIN" {
		t.Errorf("%+v", k)
	}
	if d := got.Decisions(); len(d) > 0 {
		t.Errorf("asked: %v", d)
	}
	all := maps.Clone(options)
	all["worker: group.id"], all["worker: offset.flush.interval.ms"], all["worker: value.converter"] = "", "", ""
	checkImport(t, got, all)
	if got := FromDebezium(options, worker, []string{"flag:1"}).Config.Kafka.Brokers; !slices.Equal(got, []string{"flag:1"}) {
		t.Errorf("brokers %v, want those of the flag", got)
	}
	if len(options) != len(connector(nil)) {
		t.Error("the caller's options were changed")
	}
}

// Whatever is in a connector is answered, and what comes out can be read again.
func TestFromDebeziumAnything(t *testing.T) {
	t.Parallel()
	var names []string
	for _, known := range producerAnswers {
		names = append(names, overridden+strings.TrimSuffix(known.pattern, "*"))
	}
	names = append(names, slices.Collect(maps.Keys(connector(nil)))...)
	names = append(names, "topic.creation.default.partitions", "topic.creation.default.a", "topic.creation.x.y", "database.sslmode", "database.port", "message.prefix.include.list",
		overridden+"security.protocol", overridden+"sasl.mechanism", overridden+"sasl.jaas.config", overridden+"client.id", overridden+"request.timeout.ms",
		"transforms.outbox.route.topic.regex", "transforms.outbox.table.fields.additional.placement", "plugin.name", "value.converter.schemas.enable")
	slices.Sort(names)
	value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "true", "1", "SASL_SSL", "PLAIN", "outbox", "public.outbox", "${env:X}", "a:1", "pgoutput",
		"io.debezium.transforms.outbox.EventRouter", "org.apache.kafka.connect.json.JsonConverter", "type:header", "-1", "99999999999999999999"}))
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.MapOf(rapid.OneOf(rapid.SampledFrom(names), rapid.StringMatching(`[a-z.\n#:]{1,20}`)), value).Draw(t, "options")
		options["database.password"], options[overridden+"ssl.key.password"] = "s3cr3t", "s3cr3t"
		checkImport(t, FromDebezium(options, nil, nil), options)
	})
}
