package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testURL    = "postgres://app:pa55w0rd@db.example:5432/shop"
	testBroker = "broker-1:9092"
)

// minimal is the environment that the program needs.
func minimal(more ...string) []string {
	return append([]string{"WALRELAY_POSTGRES_URL=" + testURL, "WALRELAY_KAFKA_BROKERS=" + testBroker, "HOME=/nowhere"}, more...)
}

// write makes a file and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load is read for tests that expect no problem.
func load(t *testing.T, s Sources) Config {
	t.Helper()
	c, problems := read(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

// check is the error of a configuration's values.
func check(c Config) error {
	_, err := c.Relay()
	return err
}

// problems are the lines of a report.
func problems(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var lines []string
	for _, p := range err.(Problems) {
		lines = append(lines, p.String())
	}
	return lines
}

// wantProblems compares a report with the beginnings and parts that its lines must have: "a … b" is a line that begins
// with a and goes on to b.
func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	got := problems(t, err)
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		rest, first := got[i], true
		for part := range strings.SplitSeq(want[i], " … ") {
			at := strings.Index(rest, part)
			ok = ok && (at == 0 || at > 0 && !first)
			rest, first = rest[max(at, 0):], false
		}
	}
	if !ok {
		t.Errorf("problems:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// byKey finds a setting of the configuration.
func byKey(t *testing.T, c *Config, key string) setting {
	t.Helper()
	all := c.settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	if i < 0 {
		t.Fatalf("no key %s", key)
	}
	return all[i]
}

// samples are three different texts that a key takes.
func samples(v reflect.Value) []string {
	switch v.Interface().(type) {
	case time.Duration:
		return []string{"11s", "12s", "13s"}
	case Size:
		return []string{"1111", "2222", "3KiB"}
	case []string, []Table:
		return []string{"a.a", "b.b,c.c", "d.d"}
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int16, reflect.Int32:
		return []string{"11", "12", "13"}
	case reflect.Bool:
		return []string{"true", "false", "true"}
	}
	return []string{"one", "two", "three"}
}

// nested is the YAML of one key.
func nested(key, value string) string {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for i, part := range parts {
		b.WriteString(strings.Repeat("  ", i) + part + ":")
		if i == len(parts)-1 {
			b.WriteString(" " + value)
		}
		b.WriteString("\n")
	}
	return b.String()
}
