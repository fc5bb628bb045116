package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two variables are enough.
func TestMinimal(t *testing.T) {
	t.Parallel()
	c := load(t, Sources{Environ: minimal()})
	if err := check(c); err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Postgres.URL = NewConnString(testURL)
	want.Kafka.Brokers = []string{testBroker}
	want.from = c.from
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
	slot, publication := c.names()
	if slot != "walrelay_shop" || publication != "walrelay_shop" || c.Tables[0].Name != "public.outbox" {
		t.Errorf("slot %q, publication %q, tables %v", slot, publication, c.Tables)
	}
}

// Flags > environment > file > default, for every key.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	d := Default()
	for _, s := range d.settings() {
		if s.variable() == "" {
			continue // a map, see TestMapOnlyInFile
		}
		if slices.Contains([]string{"postgres.url_file", "postgres.password_file", "kafka.sasl.password_file", "http.token_file"}, s.key) {
			continue // the file is read at once, see TestSecretFiles
		}
		text := samples(s.value)
		file := write(t, "walrelay.yaml", nested(s.key, text[0]))
		env := s.variable() + "=" + text[1]
		flag := Flag{"--x", s.key, text[2]}
		for _, c := range []struct {
			sources Sources
			want    string
			from    string
		}{
			{Sources{}, "", ""},
			{Sources{File: file}, text[0], "walrelay.yaml:"},
			{Sources{Environ: []string{env}}, text[1], s.variable()},
			{Sources{File: file, Environ: []string{env}}, text[1], s.variable()},
			{Sources{Flags: []Flag{flag}}, text[2], "--x"},
			{Sources{File: file, Environ: []string{env}, Flags: []Flag{flag}}, text[2], "--x"},
			{Sources{File: file, Environ: []string{s.variable() + "="}}, text[0], "walrelay.yaml:"}, // empty is absent
		} {
			got := load(t, c.sources)
			want := Default()
			if c.want != "" {
				if err := byKey(t, &want, s.key).parse(c.want); err != nil {
					t.Fatal(err)
				}
			}
			opts := cmp.Options{cmp.AllowUnexported(Config{}), cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "from" }, cmp.Ignore())}
			if diff := cmp.Diff(want, got, opts); diff != "" {
				t.Errorf("%s from %+v: %s", s.key, c.sources, diff)
			}
			if from := got.from[s.key]; !strings.HasPrefix(from, c.from) || (from == "") != (c.from == "") {
				t.Errorf("%s is said to come from %q, want %q", s.key, from, c.from)
			}
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		Sources
	}{
		{"variable", Sources{Environ: []string{"WALRELAY_KAFKA_BROKERS= a:1, b:2 ,"}}},
		{"flag", Sources{Flags: []Flag{{"--kafka-brokers", "kafka.brokers", "a:1,b:2"}}}},
		{"block", Sources{File: write(t, "c.yaml", "kafka:\n  brokers:\n    - a:1\n    - b:2\n")}},
		{"flow", Sources{File: write(t, "c.yaml", "kafka: {brokers: ['a:1', 'b:2']}")}},
		{"text", Sources{File: write(t, "c.yaml", "kafka:\n  brokers: a:1,b:2\n")}},
	} {
		if got := load(t, c.Sources).Kafka.Brokers; !reflect.DeepEqual(got, []string{"a:1", "b:2"}) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestMapOnlyInFile(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "kafka:\n  topics:\n    config:\n      retention.ms: 86400000\n      cleanup.policy: compact,delete\n")
	want := map[string]string{"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
	if diff := cmp.Diff(want, load(t, Sources{File: file}).Kafka.Topics.Config); diff != "" {
		t.Error(diff)
	}
	_, err := read(Sources{Environ: []string{"WALRELAY_KAFKA_TOPICS_CONFIG=a=b"}})
	wantProblems(t, err, "WALRELAY_KAFKA_TOPICS_CONFIG: kafka.topics.config can only be set in the configuration file")
}

// A table that the file describes keeps its description when a variable or flag chooses it by name: with the default one
// its events would go to other topics.
func TestTablesByName(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", `
tables:
  - public.plain
  - name: sales.events
    columns: {key: customer}
    route: {replacement: 'sales.${routedByValue}'}
    placements: []
`)
	c := load(t, Sources{File: file})
	if len(c.Tables) != 2 || c.Tables[0].Name != "public.plain" || c.Tables[1].Route.Columns.Key != "customer" ||
		c.Tables[1].Route.Placements == nil {
		t.Fatalf("from the file: %v", c)
	}
	described := c.Tables[1]
	c = load(t, Sources{File: file, Environ: []string{"WALRELAY_TABLES=public.other,sales.events"}})
	if diff := cmp.Diff([]Table{{Name: "public.other"}, described}, c.Tables); diff != "" {
		t.Error(diff)
	}
}

func TestConfigVariable(t *testing.T) {
	t.Parallel()
	file, other := write(t, "c.yaml", "postgres: {slot: of_file}"), write(t, "c.yaml", "postgres: {slot: of_other}")
	environ := []string{"WALRELAY_CONFIG=" + file}
	if got := load(t, Sources{Environ: environ}).Postgres.Slot; got != "of_file" {
		t.Errorf("slot %q", got)
	}
	if got := load(t, Sources{File: other, Environ: environ}).Postgres.Slot; got != "of_other" {
		t.Errorf("the flag goes first: slot %q", got)
	}
}

// Kubernetes puts variables into the pods of a namespace that has a service named walrelay.
func TestKubernetesVariables(t *testing.T) {
	t.Parallel()
	load(t, Sources{Environ: []string{
		"WALRELAY_SERVICE_HOST=10.0.0.1", "WALRELAY_SERVICE_PORT=9187", "WALRELAY_SERVICE_PORT_HTTP=9187",
		"WALRELAY_PORT=tcp://10.0.0.1:9187", "WALRELAY_PORT_9187_TCP=tcp://10.0.0.1:9187",
		"WALRELAY_PORT_9187_TCP_ADDR=10.0.0.1", "WALRELAY_PORT_9187_TCP_PORT=9187", "WALRELAY_PORT_9187_TCP_PROTO=tcp",
		"WALRELAY_METRICS_SERVICE_HOST=10.0.0.1", "WALRELAY_METRICS_PORT=tcp://10.0.0.1:9187",
	}})
	_, err := read(Sources{Environ: []string{"WALRELAY_KAFKA_PORT=9092"}})
	wantProblems(t, err, "WALRELAY_KAFKA_PORT: no such variable")
}

func TestSlotOfDatabase(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u@h/shop":                           "walrelay_shop",
		"postgres://u@h/My-Shop.v2":                     "walrelay_my_shop_v2",
		"postgres://u@h/gesch%C3%A4ft":                  "walrelay_gesch_ft",
		"postgres://only_user@h":                        "walrelay_only_user",
		"host=h dbname=shop":                            "walrelay_shop",
		"postgres://u@h/" + strings.Repeat("long_", 20): ("walrelay_" + strings.Repeat("long_", 20))[:63],
	} {
		c := Default()
		c.Postgres.URL = NewConnString(url)
		if slot, publication := c.names(); slot != want || publication != want {
			t.Errorf("%s: slot %q, publication %q, want %q", url, slot, publication, want)
		}
		c.Postgres.Slot, c.Postgres.Publication = "mine", "other"
		if slot, publication := c.names(); slot != "mine" || publication != "other" {
			t.Errorf("slot %q, publication %q", slot, publication)
		}
	}
}
