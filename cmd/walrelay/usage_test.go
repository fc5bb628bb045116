package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// walrelay alone tells how to begin.
func TestHelpWithoutReading(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		got := walrelay(t, nil, args...)
		if got.code != exitStopped || got.err != "" {
			t.Errorf("%q: code %d, %s", args, got.code, got.err)
		}
		for _, wanted := range []string{
			"export WALRELAY_POSTGRES_URL=postgres://", "export WALRELAY_KAFKA_BROKERS=", "walrelay run\n", "walrelay init --sql",
			"  init  ", "  run  ", "  config  ", "  version  ", "--config file", "--table schema.table",
			"0    stopped as asked", "1    unexpected", "2    configuration or usage", "3    needs a person",
		} {
			if !strings.Contains(got.out, wanted) {
				t.Errorf("%q does not say %q:\n%s", args, wanted, got.out)
			}
		}
		if lines := strings.Count(got.out, "\n"); lines > 60 {
			t.Errorf("%q: %d lines are not short", args, lines)
		}
	}
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	got := walrelay(t, nil, "run")
	want := `walrelay: configuration: 2 problems
  postgres.url: not set; want postgres://user:password@host:5432/database; set WALRELAY_POSTGRES_URL, --postgres-url or postgres.url in the file
  kafka.brokers: not set; want host:port, more of them separated by commas; set WALRELAY_KAFKA_BROKERS, --kafka-brokers or kafka.brokers in the file
example:
  export WALRELAY_POSTGRES_URL=postgres://user:password@localhost:5432/database
  export WALRELAY_KAFKA_BROKERS=localhost:9092
  walrelay run
`
	if got.code != exitConfiguration || got.err != want || got.out != "" {
		t.Errorf("code %d, %s%s", got.code, got.out, got.err)
	}
	got = walrelay(t, []string{"WALRELAY_POSTGRES_URL=postgres://u@h/db"}, "run")
	if got.code != exitConfiguration || !strings.HasPrefix(got.err, "walrelay: configuration: kafka.brokers: not set; want host:port") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

// Wrong command lines are one line with the way out, and repeat nothing that may be a password.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"rnu", `walrelay: unknown command "rnu"; did you mean run?; see walrelay --help`},
		{"config chekc", `walrelay: unknown command "chekc"; did you mean check?; see walrelay config --help`},
		{"postgres://u:secret@h/db", "walrelay: unknown command; see walrelay --help"},
		{"run postgres://u:secret@h/db", "walrelay: takes flags only, no arguments; see walrelay run --help"},
		{"run --slott x", "walrelay: unknown flag: --slott; see walrelay run --help"},
		{"run --postgres-uri=postgres://u:secret@h/db", "walrelay: unknown flag: --postgres-uri; see walrelay run --help"},
		{"run --slot", "walrelay: flag needs an argument: --slot; see walrelay run --help"},
		{"init --existing=keep", "walrelay: --existing: want publish or skip; see walrelay init --help"},
		{"init --existing=publish --sql", "walrelay: --existing=publish: a script cannot publish; leave out --sql; see walrelay init --help"},
		{"verify --since=yesterday", "walrelay: --since yesterday: want a time such as"},
		{"verify --ids=7", "walrelay: --ids 7: want a range such as 1000..2000; see walrelay verify --help"},
		{"version --json=perhaps", `walrelay: invalid argument "perhaps" for "--json" flag`},
	} {
		got := walrelay(t, nil, strings.Fields(c.line)...)
		if got.code != exitConfiguration || !oneLineWith(got.err, c.want) || got.out != "" || strings.Contains(got.err, "secret") {
			t.Errorf("%s: code %d, %s%s", c.line, got.code, got.out, got.err)
		}
	}
}

// Each flag sets its key, goes before the variable, and is named as the source.
func TestFlags(t *testing.T) {
	t.Parallel()
	environ := []string{"WALRELAY_POSTGRES_URL=postgres://u@h/env", "WALRELAY_KAFKA_BROKERS=env:1", "WALRELAY_POSTGRES_SLOT=env",
		"WALRELAY_POSTGRES_PUBLICATION=env", "WALRELAY_TABLES=env.env", "WALRELAY_HTTP_LISTEN=env:1", "WALRELAY_LOG_LEVEL=error", "WALRELAY_LOG_FORMAT=json"}
	got := walrelay(t, environ, "config", "print", "--postgres-url", "postgres://u:secret@h/flag", "--kafka-brokers", "a:1,b:2", "--kafka-brokers", "c:3",
		"--slot", "s", "--publication", "p", "--table", "a.b", "--table", "c.d", "--http-listen", "off", "--log-level", "warn", "--log-format", "console")
	for _, line := range []string{
		"  url: postgres://u:***@h/flag # --postgres-url\n", "  brokers: # --kafka-brokers\n    - a:1\n    - b:2\n    - c:3\n", "  slot: s # --slot\n",
		"  publication: p # --publication\n", "tables: # --table\n  - name: a.b\n  - name: c.d\n", "  listen: off # --http-listen\n",
		"  level: warn # --log-level\n", "  format: console # --log-format\n",
	} {
		if !strings.Contains(got.out, line) {
			t.Errorf("no %q in\n%s", line, got.out)
		}
	}
	if got.code != exitStopped || got.err != "" || strings.Contains(got.out, "secret") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "walrelay.yaml")
	text := "postgres: {url: 'postgres://u:secret@h/db', slotname: x}\nkafka: {brokers: [h:1], linger: 1h}\nlog: {level: loud}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := walrelay(t, nil, "config", "check", "--config", file)
	want := `walrelay: configuration: 3 problems
  postgres.slotname (walrelay.yaml:1): no such key; did you mean postgres.slot?
  log.level = "loud" (walrelay.yaml:3): want debug, info, warn or error
  kafka.linger = "1h0m0s" (walrelay.yaml:2): want 0s to 1s
`
	if got.code != exitConfiguration || got.err != want {
		t.Errorf("code %d, %s", got.code, got.err)
	}
	got = walrelay(t, nil, "config", "print", "--config", file)
	if got.code != exitConfiguration || got.err != want || !strings.Contains(got.out, "url: postgres://u:***@h/db # walrelay.yaml:1") {
		t.Errorf("print: code %d, %s%s", got.code, got.out, got.err)
	}
	got = walrelay(t, []string{"WALRELAY_POSTGRES_URL=postgres://u@h/db", "WALRELAY_KAFKA_BROKERS=h:1"}, "config", "check")
	if got.code != exitStopped || got.out != "the configuration is valid\n" || got.err != "" {
		t.Errorf("code %d, %s%s", got.code, got.out, got.err)
	}
	got = walrelay(t, nil, "config")
	if got.code != exitStopped || !strings.Contains(got.out, "walrelay config [command]") {
		t.Errorf("config alone: code %d, %s", got.code, got.out)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := walrelay(t, nil, "version")
	if got.code != exitStopped || !oneLineWith(got.out, "walrelay ", "(commit ", runtime.Version()) {
		t.Errorf("code %d, %s", got.code, got.out)
	}
	got = walrelay(t, nil, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(got.out), &b); err != nil || b.Version == "" || b.Commit == "" || b.Go != runtime.Version() {
		t.Errorf("%s, %v", got.out, err)
	}
}

// What the release sets is what is shown.
func TestReleasedVersion(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "walrelay")
	build := command(t, "go", "build", "-ldflags", "-X main.version=v9.8.7", "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	output, err := command(t, binary, "version").Output()
	if err != nil || !strings.HasPrefix(string(output), "walrelay v9.8.7 (commit ") {
		t.Errorf("%s, %v", output, err)
	}
}
