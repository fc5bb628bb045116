package bench

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of the result file into the documentation")

// TestDocumentation holds the tables of the documentation to the result file.
func TestDocumentation(t *testing.T) {
	report, err := ReadReport("result.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../docs/performance.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Tables(string(text), report)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(string(text), want); diff != "" {
			t.Errorf("%s differs from bench/result.json: go test ./bench -run Documentation -update\n%s", path, diff)
		}
	}
}

// TestMeasure runs parts that are unlike each other from end to end; with WALRELAY_LONG=1 more of them, which takes minutes.
// The figures mean nothing.
func TestMeasure(t *testing.T) {
	requireServers(t)
	path := filepath.Join(t.TempDir(), "result.json")
	o := Options{
		PostgresBin: PostgresBin, Parts: []string{"start", "shapes"},
		Programs: []string{"walrelay", limit, "polling"}, Runs: 1, Scale: 0.002, Rates: []int{100}, Load: time.Second,
	}
	if os.Getenv("WALRELAY_LONG") == "1" {
		o.Parts = append(o.Parts, "latency", "split", "primary")
	}
	report, err := ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Measure(t.Context(), o, report, func() error { return report.Write(path) }, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	again, err := ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range o.Parts {
		section := again.Parts[name]
		if section == nil {
			t.Fatalf("no section %s", name)
		}
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		for _, l := range section.Lines {
			if l.Runs != 1 || l.Date == "" || l.Commit == "" {
				t.Errorf("%s, %s, %s: %d runs, date %q, commit %q", name, l.Workload, l.Program, l.Runs, l.Date, l.Commit)
			}
		}
		if columns := parts[i].used(section); len(columns) < 3 {
			t.Errorf("%s: only columns %v have figures", name, columns)
		}
	}
}

func TestMergeKeepsOtherLines(t *testing.T) {
	r := &Report{Parts: map[string]*Section{"latency": {Lines: []Line{
		{Workload: "100/s", Program: "a", Commit: "old"}, {Workload: "1,000/s", Program: "a", Commit: "old"},
	}}}}
	fresh := &Section{}
	fresh.add("100/s", "a", figures{p50: 2})
	fresh.add("100/s", "b", figures{p50: 3})
	var got []string
	for _, l := range r.merge("latency", fresh).Lines {
		got = append(got, strings.Join([]string{l.Workload, l.Program, l.Commit, number(l.Figures[p50].Median)}, " "))
	}
	want := []string{"100/s a  2.00", "1,000/s a old 0.00", "100/s b  3.00"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	s := &Section{}
	for _, rate := range []float64{100_000, 120_000, 101_000} {
		s.add("w", limit, figures{eventsPerSecond: rate})
	}
	for _, rate := range []float64{152_000, 151_000, 153_000} {
		s.add("w", "walrelay", figures{eventsPerSecond: rate, walEach: 0.1234})
	}
	want := `| workload | program | events/s | ÷ pg_recvlogical | WAL B |
|---|---|---|---|---|
| w | pg_recvlogical | 101,000 (100,000-120,000) |  |  |
| w | walrelay | 152,000 | 1.50 | 0.12 |
`
	if diff := cmp.Diff(want, part{columns: drainColumns}.table(s)); diff != "" {
		t.Error(diff)
	}
	s.Lines[0].Date, s.Lines[1].Date, s.Lines[1].Commit = "2026-01-02T03:04:05Z", "2026-01-03T03:04:05Z", "abc"
	got, err := Tables("a\n<!-- bench:drains -->\nold\n<!-- end -->\nb\n", &Report{Machine: "box", Parts: map[string]*Section{"drains": s}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\n<!-- bench:drains -->\n*2026-01-02, 2026-01-03; box; commit , abc*\n\n" + want + "<!-- end -->\nb\n"; got != want {
		t.Error(cmp.Diff(want, got))
	}
	for _, broken := range []string{"<!-- bench:drains -->", "<!-- bench:nothing --><!-- end -->"} {
		if _, err := Tables(broken, &Report{Parts: map[string]*Section{"drains": s}}); err == nil {
			t.Errorf("%s: no error", broken)
		}
	}
}
