package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/router"
)

// valid is a configuration without problems.
func valid() Config {
	c := Default()
	c.Postgres.URL = NewConnString(testURL)
	c.Kafka.Brokers = []string{testBroker}
	return c
}

// Each wrong value is one line with the key, the value and what is wanted.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Postgres.URL = ConnString{} }, "postgres.url: not set; want postgres://user:password@host:5432/database; set WALRELAY_POSTGRES_URL, --postgres-url or"},
		{func(c *Config) { c.Postgres.URL = NewConnString("localhost:5432") }, `postgres.url = "***": cannot be read; want postgres://user:password@host:5432/database`},
		{func(c *Config) { c.Postgres.URL = NewConnString("postgres://u@h/d?sslmode=on") }, `postgres.url = "***": its TLS settings are wrong: sslmode is invalid`},
		{func(c *Config) {
			c.Postgres.URL = NewConnString("postgres://u@h/d?sslmode=verify-full&sslrootcert=no/file")
		}, `postgres.url = "***": its TLS settings are wrong: unable to read CA file: open no/file: no such file`},
		{func(c *Config) { c.Postgres.Slot = "My-Slot" }, `postgres.slot = "My-Slot": want 1 to 63 characters out of a-z`},
		{func(c *Config) { c.Postgres.Slot = strings.Repeat("s", 64) }, `postgres.slot = "sss`},
		{func(c *Config) { c.Postgres.Publication = strings.Repeat("ä", 32) }, `postgres.publication = "ää`},
		{func(c *Config) { c.Postgres.WALSenderTimeout = 0 }, `postgres.wal_sender_timeout = "0s": want 5s to 1h`},
		{func(c *Config) { c.Postgres.LogicalDecodingWorkMem = "lots" }, `postgres.logical_decoding_work_mem = "lots": want a number with kB, MB or GB`},
		{func(c *Config) { c.Postgres.MaxEventBytes = 1 }, `postgres.max_event_bytes = "1": want 64KiB to 1GiB`},
		{func(c *Config) { c.Tables = nil }, `tables: want at least one, such as public.outbox`},
		{func(c *Config) { c.Tables = []Table{{Name: "outbox"}} }, `tables[0] = "outbox": want schema.table, such as public.outbox`},
		{func(c *Config) { c.Tables = []Table{{Name: `public."Out"`}} }, `tables[0] = "public.\"Out\"": want schema.table`},
		{func(c *Config) { c.Tables = []Table{{}} }, `tables[0]: want schema.table`},
		{func(c *Config) { c.Tables = append(c.Tables, c.Tables...) }, `tables[1] = "public.outbox": the same table twice`},
		{func(c *Config) { c.Tables[0].Route = router.Config{Preset: "kafka"} }, `tables[0] = "public.outbox": preset "kafka": use one of`},
		{func(c *Config) { c.Kafka.Resume = "maybe" }, `kafka.resume = "maybe": want prefer, require or off`},
		{func(c *Config) { c.Messages.OnPoison = "skip" }, `messages.on_poison = "skip": want dead_letter or halt`},
		{func(c *Config) { c.Messages.Enabled = true }, `messages.topics: not set; want the topics that messages may go to`},
		{func(c *Config) { c.Messages = on(); c.Messages.Prefix = "" }, `messages.prefix: want 1 to 63 bytes`},
		{func(c *Config) { c.Messages = on(); c.Messages.Topics = []string{"a", "b c*"} }, `messages.topics[1] = "b c*": want a topic, or the beginning of one`},
		{func(c *Config) { c.Messages = on(); c.Messages.Route.Key.Format = "avro" }, `messages: key.format "avro": use one of`},
		{func(c *Config) {
			c.Messages = on()
			c.Messages.Route.Columns.Type = "payload"
			c.Messages.Route.Filter.Types = []string{"x"}
			c.Messages.Route.Columns.Timestamp = "payload"
		},
			`messages: message envelope: `},
		{func(c *Config) { c.Ignore = []string{"public.outbox"} }, `ignore[0] = "public.outbox": is in tables too`},
		{func(c *Config) { c.Ignore = []string{"a.b", "outbox"} }, `ignore[1] = "outbox": want schema.table`},
		{func(c *Config) { c.Kafka.Brokers = nil }, `kafka.brokers: not set; want host:port, more of them separated by commas; set WALRELAY_KAFKA_BROKERS, --kafka-brokers or`},
		{func(c *Config) { c.Kafka.Brokers = []string{"kafka-1"} }, `kafka.brokers = "kafka-1": want host:port`},
		{func(c *Config) { c.Kafka.Compression = "brotli" }, `kafka.compression = "brotli": want none, gzip, snappy, lz4 or zstd`},
		{func(c *Config) { c.Kafka.TLS.ServerName = "x" }, `kafka.tls.enabled = "false": want true, since other keys of kafka.tls are set`},
		{func(c *Config) { c.Kafka.TLS = TLS{Enabled: true, CAFile: "no/file"} }, `kafka.tls.ca_file = "no/file": cannot be read: no such file or directory`},
		{func(c *Config) { c.Kafka.TLS = TLS{Enabled: true, CAFile: "doc.go"} }, `kafka.tls.ca_file = "doc.go": has no certificate; want PEM`},
		{func(c *Config) { c.Kafka.TLS = TLS{Enabled: true, KeyFile: "x"} }, `kafka.tls.cert_file: want kafka.tls.cert_file and kafka.tls.key_file together`},
		{func(c *Config) { c.Kafka.TLS = TLS{Enabled: true, CertFile: "doc.go", KeyFile: "doc.go"} }, `kafka.tls.cert_file = "doc.go": cannot be used with kafka.tls.key_file`},
		{func(c *Config) { c.Kafka.SASL.Username = "u" }, `kafka.sasl.mechanism: not set, but other keys of kafka.sasl are; want PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
		{func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "GSSAPI", Username: "u", Password: NewSecret("p")} }, `kafka.sasl.mechanism = "GSSAPI": want PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
		{func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "PLAIN", Password: NewSecret("p")} }, `kafka.sasl.username: not set`},
		{func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "PLAIN", Username: "u"} }, `kafka.sasl.password: not set; kafka.sasl.mechanism needs it (or kafka.sasl.password_file or _command)`},
		{func(c *Config) { c.HTTP.Listen = "9187" }, `http.listen = "9187": want host:port, such as 127.0.0.1:9187 or :9187 for all addresses, or off`},
		{func(c *Config) { c.HTTP.Listen = "" }, `http.listen: want host:port`},
		{func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "OAUTHBEARER"} }, `kafka.sasl.password: not set`},
		{func(c *Config) { c.Kafka.SASL = SASL{Mechanism: "OAUTHBEARER", Username: "u", PasswordFile: "p"} }, `kafka.sasl.username = "u": only kafka.sasl.token_url is asked`},
		{func(c *Config) { c.Kafka.SASL = bearer("https://u:p@idp.example/token") }, `kafka.sasl.token_url = "***": want https://host/path`},
		{func(c *Config) { c.Kafka.SASL = bearer("http://idp.example/token") }, `kafka.sasl.token_url = "http://idp.example/token": want https://host/path`},
		{func(c *Config) {
			c.Kafka.SASL = bearer("https://idp.example/token")
			c.Kafka.SASL.TokenCAFile = "doc.go"
		}, `kafka.sasl.token_ca_file = "doc.go": has no certificate`},
		{func(c *Config) { c.Kafka.SASL = bearer("https://idp.example/token"); c.Kafka.SASL.Mechanism = "PLAIN" }, `kafka.sasl.token_url = "https://idp.example/token": only OAUTHBEARER`},
		{func(c *Config) { c.HTTP.Token = NewSecret("short") }, `http.token = "***": want at least 16 characters`},
		{func(c *Config) { c.HTTP.KeyFile = "x" }, `http.cert_file: want http.cert_file and http.key_file together`},
		{func(c *Config) { c.Log.Level = "loud" }, `log.level = "loud": want debug, info, warn or error`},
		{func(c *Config) { c.Log.Format = "text" }, `log.format = "text": want auto, json or console`},
		{func(c *Config) { c.OnStop = "restart" }, `on_stop = "restart": want exit or wait`},
		{func(c *Config) { c.SlotWatch.WarnBytes = 1 << 40 }, `slot_watch.warn_bytes = "1024GiB": want 1MiB to slot_watch.unready_bytes`},
		{func(c *Config) { c.Checkpoint.SaveInterval = time.Hour }, `checkpoint.save_interval = "1h0m0s": want 100ms to 1m`},
		{func(c *Config) { c.DrainTimeout = 0 }, `drain_timeout = "0s": want 1s to 10m`},
	} {
		config := valid()
		c.change(&config)
		wantProblems(t, check(config), c.want)
	}
}

// bearer logs in with tokens from a server.
func bearer(url string) SASL {
	return SASL{Mechanism: "OAUTHBEARER", Username: "u", PasswordCommand: "print token", TokenURL: Endpoint(url)}
}

// on is a valid section messages.
func on() Messages {
	return Messages{Enabled: true, Prefix: "walrelay", OnPoison: "halt", Topics: []string{"orders", "audit.*", "*"}}
}

// With messages there need not be a table; without them their section does not matter.
func TestMessages(t *testing.T) {
	t.Parallel()
	c := valid()
	c.Messages, c.Tables = on(), []Table{}
	wantProblems(t, check(c))
	c = valid()
	c.Messages = Messages{OnPoison: "halt"}
	wantProblems(t, check(c))
}

// Every bound that package kafka has comes under its key, and 0 is not taken for the default.
func TestValidateKafkaBounds(t *testing.T) {
	t.Parallel()
	bounded := valid()
	for _, s := range bounded.settings() {
		if !strings.HasPrefix(s.key, "kafka.") {
			continue
		}
		var bad []int64
		switch s.value.Kind() {
		case reflect.Int16:
			bad = []int64{0, -2}
		case reflect.Int32:
			bad = []int64{0, -2}
		case reflect.Int, reflect.Int64:
			bad = []int64{0, 1 << 50}
		}
		for _, value := range bad {
			config := valid()
			byKey(t, &config, s.key).value.SetInt(value)
			if value == 0 && s.key == "kafka.linger" {
				wantProblems(t, check(config))
				continue
			}
			wantProblems(t, check(config), s.key+` = "`)
		}
	}
}

// All problems of all sources are in one report, each with its source.
func TestAllProblemsInOneReport(t *testing.T) {
	t.Parallel()
	_, err := Load(Sources{
		File: write(t, "walrelay.yaml", `kafka:
  linger: 2s
  batch_bytes: 1
tables:
  - public.outbox
  - name: events
    route: {no_match: skip}
    key: {format: avro}
`),
		Environ: []string{"WALRELAY_LOG_FORMAT=xml", "WALRELAY_POSTGRES_SLOTS=x"},
		Flags:   []Flag{{"--log-level", "log.level", "loud"}},
	})
	wantProblems(t, err,
		"WALRELAY_POSTGRES_SLOTS: no such variable; did you mean WALRELAY_POSTGRES_SLOT?",
		"postgres.url: not set",
		`tables[1] = "events" (walrelay.yaml:6): want schema.table`,
		`tables[1] = "events" (walrelay.yaml:6): route.no_match "skip": use one of`,
		`tables[1] = "events" (walrelay.yaml:6): key.format "avro": use one of`,
		`log.level = "loud" (--log-level): want debug`,
		`log.format = "xml" (WALRELAY_LOG_FORMAT): want auto, json or console`,
		"kafka.brokers: not set",
		`kafka.batch_bytes = "1" (walrelay.yaml:3): want`,
		`kafka.linger = "2s" (walrelay.yaml:2): want 0s to 1s`,
	)
	if text := err.Error(); !strings.HasPrefix(text, "configuration: 10 problems\n  WALRELAY_POSTGRES_SLOTS: ") || strings.Count(text, "\n") != 10 {
		t.Errorf("the report:\n%s", text)
	}
	one := valid()
	one.Log.Level = "loud"
	if text := check(one).Error(); text != `configuration: log.level = "loud": want debug, info, warn or error` {
		t.Errorf("one problem is one line: %q", text)
	}
}
