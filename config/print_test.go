package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is printed is a configuration file again, for the same configuration.
func TestPrintedConfigurationLoads(t *testing.T) {
	t.Parallel()
	c := load(t, Sources{
		File: write(t, "walrelay.yaml", `
tables:
  - public.outbox
  - name: sales.events
    route: {regex: '(?<routedByValue>.*)', field: "on"}
    value: {format: json, expand: true}
    placements: []
messages: {enabled: true, topics: ['outbox.event.*'], headers: {id: event_id}, placements: []}
ignore: ["null"]
kafka: {topics: {partitions: 3, config: {cleanup.policy: compact, b: "1"}}, max_in_flight_bytes: 9MiB}
http: {listen: "off"}
`),
		Environ: minimal("WALRELAY_KAFKA_LINGER=90s", "WALRELAY_LOG_LEVEL=debug"),
		Flags:   []Flag{{"--slot", "postgres.slot", "007"}},
	})
	printed := c.YAML()
	again := load(t, Sources{File: write(t, "again.yaml", printed)})
	again.Postgres.URL, again.Postgres.Publication = c.Postgres.URL, "" // masked, and written out
	ignoreSources := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "from" }, cmp.Ignore())
	if diff := cmp.Diff(c, again, cmp.AllowUnexported(Config{}), ignoreSources); diff != "" {
		t.Errorf("%s\nprinted:\n%s", diff, printed)
	}
	for _, line := range []string{
		"  url: postgres://app:***@db.example:5432/shop # WALRELAY_POSTGRES_URL\n",
		"  slot: \"007\" # --slot\n",
		"  publication: \"007\"\n",
		"  linger: 1m30s # WALRELAY_KAFKA_LINGER\n",
		"  level: debug # WALRELAY_LOG_LEVEL\n",
		"  format: auto\n",
		"  max_in_flight_bytes: 9MiB # walrelay.yaml:10\n",
		"  batch_bytes: 900000\n",
		"  listen: off # walrelay.yaml:11\n",
		"tables: # walrelay.yaml:3\n",
		"    placements: [] # walrelay.yaml:7\n",
		"  enabled: true # walrelay.yaml:8\n",
		"  headers:\n    id: event_id # walrelay.yaml:8\n  placements: [] # walrelay.yaml:8\n",
	} {
		if !strings.Contains(printed, line) {
			t.Errorf("no line %q in\n%s", line, printed)
		}
	}
	if strings.Contains(printed, "trace_context") {
		t.Errorf("empty keys of a table:\n%s", printed)
	}
}

func TestShortDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 100 * time.Millisecond: "100ms", 61 * time.Second: "1m1s",
		time.Hour + 10*time.Minute: "1h10m", 10 * time.Hour: "10h", 20 * time.Minute: "20m",
	} {
		if got := short(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "900000": 900_000, "64KiB": 64 << 10, "8 MiB": 8 << 20, "1GiB": 1 << 30,
		"-1": -1, "8MB": -1, "1kb": -1, "": -1, "KiB": -1, "1.5MiB": -1, "9999999GiB": -1, "99999999999999999999": -1,
	} {
		var got Size
		err := got.UnmarshalText([]byte(text))
		if (err != nil) != (want == -1) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
		var again Size
		if err == nil && (again.UnmarshalText([]byte(got.String())) != nil || again != got) {
			t.Errorf("%q is printed as %q", text, got)
		}
	}
}
