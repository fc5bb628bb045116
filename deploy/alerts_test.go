package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/walrelay/walrelay/relay"
)

// checked is what rulecheck says of rules, tests and dashboard.
type checked struct {
	Failures []string
	Rules    []struct {
		Alert, Severity string
		Annotations     map[string]string
		Series          []series
		Tested          bool
	}
	Panels []struct {
		Title  string
		Series []series
	}
}

// series is a selector: a metric, and the values that an expression names for its labels.
type series struct {
	Metric string
	Labels map[string][]string
}

func rulecheck(t *testing.T, rules, tests, dashboard string) checked {
	t.Helper()
	args := []string{"run", "."}
	for _, file := range []string{rules, tests, dashboard} {
		absolute, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, absolute)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "rulecheck"
	out, err := cmd.Output()
	if err != nil {
		exit, _ := err.(*exec.ExitError)
		t.Fatalf("rulecheck: %v\n%s", err, exit.Stderr)
	}
	var c checked
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	alerts    = "prometheus/alerts.yaml"
	tests     = "prometheus/alerts_test.yaml"
	dashboard = "grafana/walrelay.json"
)

// Every alert passes its tests, fires in one and is quiet in another, and leads to a paragraph that says what to do.
func TestAlerts(t *testing.T) {
	c := rulecheck(t, alerts, tests, dashboard)
	for _, failure := range c.Failures {
		t.Error(failure)
	}
	runbook := headings(t, "../docs/operations.md")
	for _, r := range c.Rules {
		if !r.Tested {
			t.Errorf("%s: want a test in which it fires and one in which it does not", r.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Severity) {
			t.Errorf("%s: severity %q", r.Alert, r.Severity)
		}
		_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "docs/operations.md#")
		if anchor != strings.ToLower(r.Alert) || !runbook[anchor] {
			t.Errorf("%s: runbook %q is no heading of docs/operations.md", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: no summary or description", r.Alert)
		}
		delete(runbook, anchor)
	}
	for heading := range runbook {
		if strings.HasPrefix(heading, "walrelay") {
			t.Errorf("docs/operations.md has a paragraph %s, and no alert is called that", heading)
		}
	}
}

// headings are the anchors of a page.
func headings(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		found[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	return found
}

// Every metric and label that an alert or a panel names exists, and so does every value of a label.
func TestMetricsOfAlertsAndDashboard(t *testing.T) {
	c := rulecheck(t, alerts, tests, dashboard)
	all := map[string][]series{}
	for _, r := range c.Rules {
		all[r.Alert] = r.Series
	}
	for _, p := range c.Panels {
		all["panel "+p.Title] = p.Series
		if len(p.Series) == 0 {
			t.Errorf("panel %s shows nothing", p.Title)
		}
	}
	documented, valued := documentedMetrics(t), labelValues(t)
	for where, list := range all {
		for _, s := range list {
			labels, ok := documented[s.Metric]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, s.Metric)
			}
			for label, values := range s.Labels {
				if label == "job" || label == "instance" { // from Prometheus
					continue
				}
				if !slices.Contains(labels, label) {
					t.Errorf("%s: %s has no label %s", where, s.Metric, label)
				}
				for _, value := range values {
					if !valued[s.Metric][label+"="+value] {
						t.Errorf("%s: %s never has %s=%q", where, s.Metric, label, value)
					}
				}
			}
		}
	}
	if len(c.Rules) < 20 || len(c.Panels) < 15 {
		t.Errorf("%d rules, %d panels", len(c.Rules), len(c.Panels))
	}
}

// documentedMetrics are those of docs/metrics.md, which is proven equal to the code, with their labels. A histogram has its
// three series.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		var labels []string
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		found[m[1]] = labels
		if m[2] == "histogram" {
			found[m[1]+"_bucket"], found[m[1]+"_sum"], found[m[1]+"_count"] = append(labels, "le"), labels, labels
		}
	}
	return found
}

// labelValues are the values that labels of a closed set have, by metric, as label=value.
func labelValues(t *testing.T) map[string]map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	relay.New(relay.Config{}, nil, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{
		// Of the slot nothing is shown before the first look.
		"walrelay_slot_wal_status": set("status=reserved", "status=extended", "status=unreserved", "status=lost", "status=missing"),
		"walrelay_slot_watch":      set("level=ok", "level=warn", "level=unready"),
	}
	for _, family := range families {
		values := map[string]bool{}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				values[l.GetName()+"="+l.GetValue()] = true
			}
		}
		if _, fixed := found[family.GetName()]; !fixed {
			found[family.GetName()] = values
		}
	}
	return found
}

func set(values ...string) map[string]bool {
	all := map[string]bool{}
	for _, v := range values {
		all[v] = true
	}
	return all
}

// A rule that is wrong is found: the tests above are able to fail.
func TestRulecheckFinds(t *testing.T) {
	text, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.ReplaceAll(string(text), `walrelay_oldest_unconfirmed_seconds > 60`, `walrelay_oldest_unconfirmed_seconds > 600`)
	broken = strings.ReplaceAll(broken, `{state="halted"} == 1`, `{state="halted"} == 0`)
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for _, failure := range rulecheck(t, file, tests, dashboard).Failures {
		name, _, _ := strings.Cut(failure, " ")
		failed[name] = true
	}
	if got := slices.Sorted(maps.Keys(failed)); !slices.Equal(got, []string{"WalrelayEventsWait", "WalrelayHalted"}) {
		t.Errorf("failures of %v", got)
	}
}
