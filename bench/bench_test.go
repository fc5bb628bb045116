package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestQuick makes a tiny benchmark from end to end. Its figures mean nothing, but all are there.
func TestQuick(t *testing.T) {
	requireServers(t)
	var out bytes.Buffer
	o := QuickOptions{PostgresBin: PostgresBin, Rows100: 50_000, Rows1: 20_000, Runs: 1, Rate: 200, Load: time.Second, Idle: time.Second}
	if err := Quick(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var figures map[string]float64
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &figures); err != nil {
		t.Fatalf("last line: %v", err)
	}
	for _, name := range []string{"ratio_recvlogical_100", "ratio_recvlogical_1", "cpu_us_100", "cpu_us_1", "rss_mib", "p50_ms_1k", "p99_ms_1k"} {
		if figures[name] <= 0 {
			t.Errorf("%s is %v, want a positive number", name, figures[name])
		}
	}
	for _, name := range []string{"idle_cpu_pct", "other_cpu_s"} { // may round to 0
		if _, there := figures[name]; !there {
			t.Errorf("%s is missing", name)
		}
	}
}

// requireServers skips the test where the benchmark cannot run.
func requireServers(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(PostgresBin, "pg_recvlogical")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the benchmark needs Debian's postgresql-15: ", err)
	}
	kafkatest.Require(t)
}

func TestVerify(t *testing.T) {
	const a, b = "key-a", "key-b"
	type event struct {
		key string
		seq int
	}
	for _, c := range []struct {
		name   string
		events []event
		want   string
	}{
		{"complete", []event{{a, 1}, {b, 3}, {a, 2}}, ""},
		{"missing", []event{{a, 1}, {a, 3}}, "1 missing, 0 duplicated, 0 reordered"},
		{"duplicated", []event{{a, 1}, {a, 2}, {b, 3}, {a, 1}}, "0 missing, 1 duplicated, 0 reordered"},
		{"reordered", []event{{a, 2}, {a, 1}, {b, 3}}, "0 missing, 0 duplicated, 1 reordered"},
		{"foreign", []event{{a, 4}}, "not one of our events"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(3)
			var err error
			for _, e := range c.events {
				err = errors.Join(err, l.add(&kgo.Record{Key: []byte(e.key), Value: fmt.Appendf(nil, `{"seq": %d, "total": 7}`, e.seq)}))
			}
			if err == nil {
				err = l.verdict()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("verify: %v, want %q", err, c.want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Figure
	}{
		{[]float64{1}, Figure{1, 1, 1}},
		{[]float64{4, 1}, Figure{1, 1, 4}},
		{[]float64{4, 1, 2}, Figure{2, 1, 4}},
		{[]float64{123456, -0.00123456}, Figure{-0.001235, -0.001235, 123500}},
	} {
		if got := summary(slices.Clone(c.values)); got != c.want {
			t.Errorf("summary of %v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i))
	}
	for p, want := range map[float64]time.Duration{0: 0, 0.5: 50, 0.99: 99, 1: 99} {
		if got := percentile(hundred, p); got != want {
			t.Errorf("percentile %v: %d, want %d", p, got, want)
		}
	}
}

// TestCPU burns half a second and finds it in each of the clocks.
func TestCPU(t *testing.T) {
	read := func() (own, precise, family, machine float64) {
		own, _ = cpu(os.Getpid())
		family = familyCPU(os.Getpid())
		precise, err := preciseCPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if machine, err = busy(); err != nil {
			t.Fatal(err)
		}
		return own, precise, family, machine
	}
	own0, precise0, family0, machine0 := read()
	burnt := 0
	for own := own0; own < own0+0.5; own, _ = cpu(os.Getpid()) {
		for range 1_000_000 {
			burnt++
		}
	}
	own1, precise1, family1, machine1 := read()
	for name, spent := range map[string]float64{"own": own1 - own0, "precise": precise1 - precise0, "family": family1 - family0} {
		if spent < 0.4 || spent > 2 {
			t.Errorf("%s: %.3f s, want about 0.5", name, spent)
		}
	}
	if spent := machine1 - machine0; spent < 0.4 {
		t.Errorf("machine: %.3f s, want 0.5 at least", spent)
	}
	if rss, err := vmHWM(os.Getpid()); err != nil || rss < 1 || rss > 10_000 {
		t.Errorf("peak RSS of this program: %v MiB (%v)", rss, err)
	}
}
