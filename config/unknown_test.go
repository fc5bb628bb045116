package config

import (
	"strings"
	"testing"
)

// Every key that is written a little wrong is an error that names the key.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	d := Default()
	for _, s := range d.settings() {
		key, typo := s.key, withoutLetter(s.key)
		_, err := read(Sources{File: write(t, "walrelay.yaml", "# first line\n"+nested(typo, "1"))})
		got := problems(t, err)
		if len(got) != 1 || !strings.HasSuffix(got[0], "no such key; did you mean "+key+"?") || !strings.Contains(got[0], "(walrelay.yaml:") {
			t.Errorf("%s for %s: %q", typo, key, got)
		}
		if s.variable() == "" {
			continue
		}
		name := withoutLetter(s.variable())
		_, err = read(Sources{Environ: []string{name + "=1"}})
		wantProblems(t, err, name+": no such variable; did you mean "+s.variable()+"?")
	}
}

// withoutLetter drops the last letter but one.
func withoutLetter(key string) string { return key[:len(key)-2] + key[len(key)-1:] }

func TestUnknownKeysOfPeople(t *testing.T) {
	t.Parallel()
	_, err := read(Sources{File: write(t, "walrelay.yaml", `slot: x
postgress: {url: x}
kafka:
  bootstrap: a:1
  sasl: {user: x}
tables:
  - name: public.outbox
    route:
      topic_regex: x
    columns: {aggregateid: x}
`), Environ: []string{"WALRELAY_BROKERS=x", "WALRELAY_DATABASE=x", "WALRELAY_=x"}})
	wantProblems(t, err,
		"slot (walrelay.yaml:1): no such key; did you mean postgres.slot?",
		"postgress (walrelay.yaml:2): no such key; did you mean postgres?",
		"kafka.bootstrap (walrelay.yaml:4): no such key",
		"kafka.sasl.user (walrelay.yaml:5): no such key; did you mean kafka.sasl.username?",
		"tables[0].route.topic_regex (walrelay.yaml:9): no such key",
		"tables[0].columns.aggregateid (walrelay.yaml:10): no such key",
		"WALRELAY_: no such variable",
		"WALRELAY_BROKERS: no such variable; did you mean WALRELAY_KAFKA_BROKERS?",
		"WALRELAY_DATABASE: no such variable",
	)
}

// What is not a configuration file at all, or not only one.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"kafka:\n  linger: 1s\n  linger: 2s\n":          "kafka.linger (walrelay.yaml:3): given before, in line 2",
		"kafka: {topics: {config: {a: x, a: y}}}":       "kafka.topics.config.a (walrelay.yaml:1): given before",
		"kafka:\n\tlinger: 1s\n":                        "walrelay.yaml: not valid YAML: line 2",
		"log: {level: info}\n---\nlog: {level: warn}\n": "walrelay.yaml: want one YAML document",
		"just a text":                  "the file (walrelay.yaml:1): want keys below it",
		"- a\n- b\n":                   "the file (walrelay.yaml:1): want keys below it",
		"kafka: on":                    "kafka (walrelay.yaml:1): want keys below it",
		"log: {level: [info]}":         "log.level (walrelay.yaml:1): want a single value",
		"kafka: {brokers: {a: b}}":     "kafka.brokers (walrelay.yaml:1): want a list",
		"kafka: {brokers: [[a]]}":      "kafka.brokers (walrelay.yaml:1): want a text",
		"kafka: {topics: {config: x}}": "kafka.topics.config (walrelay.yaml:1): want name: value",
		"tables: [[a]]":                "tables[0] (walrelay.yaml:1): want keys below it",
		"tables:\n  - name: a.b\n    filter:\n      types: x: y":     "walrelay.yaml: not valid YAML: line 4",
		"a: &a {b: *a}\nkafka: *a":                                   "a (walrelay.yaml:1): no such key\nkafka.b (walrelay.yaml:1): no such key",
		"log:\n  level: loud\n  format: 1\nkafka:\n  linger: soon\n": `kafka.linger = "soon" (walrelay.yaml:5): want a duration with its unit`,
		"kafka: {max_in_flight_bytes: 8MB}":                          `kafka.max_in_flight_bytes = "8MB" (walrelay.yaml:1): want a number of bytes`,
		"kafka: {max_in_flight_records: many}":                       `kafka.max_in_flight_records = "many" (walrelay.yaml:1): want a whole number`,
		"kafka: {topics: {replication_factor: 40000}}":               `kafka.topics.replication_factor = "40000" (walrelay.yaml:1): want a whole number, at most 32767`,
		"kafka: {tls: {enabled: yes}}":                               `kafka.tls.enabled = "yes" (walrelay.yaml:1): want true or false`,
		"drain_timeout: -5s":                                         `drain_timeout = "-5s" (walrelay.yaml:1): want a duration`,
	} {
		_, err := read(Sources{File: write(t, "walrelay.yaml", content)})
		got := strings.Join(problems(t, err), "\n")
		for line := range strings.Lines(want) {
			if !strings.Contains(got, strings.TrimSpace(line)) {
				t.Errorf("%q:\n%s\nwant %s", content, got, line)
			}
		}
		if strings.Count(got, "\n") != strings.Count(want, "\n") {
			t.Errorf("%q: more than wanted:\n%s", content, got)
		}
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := read(Sources{File: "no/such/walrelay.yaml"})
	wantProblems(t, err, "no/such/walrelay.yaml: the configuration file cannot be read: no such file or directory")
	_, err = read(Sources{File: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a folder: %v", err)
	}
}

// Files that people have while they try things: empty, or with everything below a key commented out.
func TestHarmlessFiles(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"", "# nothing\n", "---\n", "kafka:\n", "tables:\n#  - a.b\n", "kafka:\n  brokers:\n  topics:\n    config:\n", "null\n",
	} {
		c := load(t, Sources{File: write(t, "c.yaml", content)})
		if c.Tables[0].Name != "public.outbox" || c.Kafka.ClientID != "walrelay" {
			t.Errorf("%q changed a default: %v", content, c)
		}
	}
}

// Anchors and merge keys are what people use for tables that are alike.
func TestAnchors(t *testing.T) {
	t.Parallel()
	c := load(t, Sources{File: write(t, "c.yaml", `
tables:
  - &first
    name: a.one
    columns: {key: k}
    filter: {types: [x]}
  - name: a.two
    <<: *first
  - <<: [*first]
    name: a.three
ignore: &list [a.four]
`)})
	for i, name := range []string{"a.one", "a.two", "a.three"} {
		table := c.Tables[i]
		if table.Name != name || table.Route.Columns.Key != "k" || table.Route.Filter.Types[0] != "x" {
			t.Errorf("table %d: %+v", i, table)
		}
	}
}
