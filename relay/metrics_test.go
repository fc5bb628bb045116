package relay

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
)

var updateMetrics = flag.Bool("update-metrics", false, "write docs/metrics.md anew")

const metricsDoc = "../docs/metrics.md"

// everything is a registry in which every metric of the relay has a value.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	r := New(Config{}, nil, registry)
	registry.MustRegister(BuildInfo("v1", "abc", "go1"))
	r.metrics.routed(&route{table: "public.outbox", events: 1})
	r.metrics.acknowledged(kafka.BatchAck{Topic: "orders", Records: 3, Bytes: 500, Oldest: time.Now().UnixMilli()}, time.Now())
	safe := int64(1 << 20)
	watch := &replication.Watch{
		Slot: &replication.Slot{WALStatus: "lost", InvalidationReason: "wal_removed", SafeWALSize: &safe},
		End:  0x2000, Unconfirmed: 0x1000, Retained: 0x1000, KeepLimit: 1 << 30,
	}
	r.slot.Store(&slotView{name: "s", watch: watch, status: slotStatus(watch, time.Now(), time.Second)})
	return registry
}

func gather(t *testing.T, registry *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Every metric that is registered has a value in everything, so that the tests below see all of them.
func TestEveryMetricIsSeen(t *testing.T) {
	registry := everything(t)
	descs := make(chan *prometheus.Desc, 1000)
	registry.Describe(descs)
	close(descs)
	seen := map[string]bool{}
	for _, family := range gather(t, registry) {
		seen[family.GetName()] = true
	}
	for desc := range descs {
		_, name, _ := strings.Cut(desc.String(), `fqName: "`)
		if name, _, _ = strings.Cut(name, `"`); !seen[name] {
			t.Errorf("%s has no value", name)
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d metrics only", len(seen))
	}
}

// Names, units and help follow the conventions of Prometheus.
func TestMetricsAreLinted(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	// The linter itself is at work.
	bad, err := promlint.NewWithMetricFamilies([]*dto.MetricFamily{{Name: new("walrelay_bad_total"), Type: dto.MetricType_GAUGE.Enum()}}).Lint()
	if err != nil || len(bad) == 0 {
		t.Errorf("a gauge that is called a total passes: %v, %v", bad, err)
	}
}

// docs/metrics.md lists exactly the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, family := range gather(t, everything(t)) {
		var labels []string
		for _, label := range family.Metric[0].Label {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", family.GetName(), strings.ToLower(family.GetType().String()),
			strings.Join(labels, ", "), strings.ReplaceAll(family.GetHelp(), "|", `\|`))
	}
	content, err := os.ReadFile(metricsDoc)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table: generated -->\n\n", "\n<!-- end -->"
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, also := strings.Cut(rest, end)
	if !ok || !also {
		t.Fatalf("%s has no place for the table", metricsDoc)
	}
	want := before + begin + b.String() + end + after
	if *updateMetrics {
		if err := os.WriteFile(metricsDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("%s is not what the code has (go test ./relay -run MetricsAreDocumented -update-metrics):\n%s", metricsDoc, diff)
	}
}

// However many topics rows decide on, the label topic has at most so many values.
func TestTopicsAreBounded(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry())
	const extra = 7
	for i := range maxTopics + extra {
		m.acknowledged(kafka.BatchAck{Topic: fmt.Sprint("topic-", i), Records: 2}, time.Now())
	}
	if n := testutil.CollectAndCount(m.topics.records); n != maxTopics+1 {
		t.Errorf("%d series, want %d", n, maxTopics+1)
	}
	if n := testutil.ToFloat64(m.topics.records.WithLabelValues(otherTopics)); n != 2*extra {
		t.Errorf("%v records under other, want %d", n, 2*extra)
	}
	list := m.topics.list()
	if len(list) != maxTopics+1 || list[0].Topic != otherTopics || list[0].Records != 2*extra {
		t.Errorf("list of %d begins with %+v", len(list), list[0])
	}
	ack := kafka.BatchAck{Topic: "topic-3", Records: 2}
	if raced {
		return
	}
	if n := testing.AllocsPerRun(100, func() { m.acknowledged(ack, time.Now()) }); n != 0 {
		t.Errorf("counting a batch costs %v allocations", n)
	}
}

func TestLogClock(t *testing.T) {
	var c logClock
	start := time.Unix(1_800_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for i := range 5 {
		c.add(uint64(100*i), at(10*i))
	}
	c.add(400, at(50)) // idle
	for _, want := range []struct {
		position uint64
		age      time.Duration
	}{{0, 50 * time.Second}, {99, 50 * time.Second}, {100, 40 * time.Second}, {399, 20 * time.Second}, {400, 0}, {500, 0}} {
		if got := c.age(want.position, at(60)); got != want.age {
			t.Errorf("position %d: %v, want %v", want.position, got, want.age)
		}
	}

	// A week of looks keeps its beginning and stays small.
	var week logClock
	for i := range 7 * 24 * 360 {
		week.add(uint64(i+1), at(10*i))
	}
	end := at(7 * 24 * 3600)
	for _, ago := range []time.Duration{7*24*time.Hour - 10*time.Second, 3 * 24 * time.Hour, time.Hour, 20 * time.Second} {
		position := uint64((7*24*time.Hour - ago) / (10 * time.Second))
		if got := week.age(position, end); got > ago || got < ago*30/32-10*time.Second {
			t.Errorf("a position of %v ago is %v old after a week", ago, got)
		}
	}
	if n := len(week.samples); n > maxLogSamples {
		t.Errorf("%d samples", n)
	}

	c.add(50, at(70)) // another server
	if got := c.age(40, at(75)); got != 5*time.Second {
		t.Errorf("after a switch: %v", got)
	}
}

func TestProducerStatsAddUp(t *testing.T) {
	var p produced
	one := kafka.Stats{Batches: 2, Requests: 3, InFlightBytes: 9, Retries: kafka.Retries{Leader: 1, Replicas: 2, Timeout: 3, Connection: 4, Other: 5}}
	sum := one.Plus(one)
	if sum.Batches != 4 || sum.Requests != 6 || sum.InFlightBytes != 9 || sum.Retries != (kafka.Retries{Leader: 2, Replicas: 4, Timeout: 6, Connection: 8, Other: 10}) {
		t.Errorf("sum %+v", sum)
	}
	p.begin(kafka.New(kafka.Config{}, nil))
	p.begin(kafka.New(kafka.Config{}, nil))
	if n := p.stats().Sessions; n != 2 {
		t.Errorf("%d sessions", n)
	}
	if !slices.Contains(kafka.Kinds(), kafka.KindBlocked) {
		t.Error("a kind is missing")
	}
}

// What is counted of a run is what happened.
func TestMetricsOfARun(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		registry := prometheus.NewRegistry()
		r := w.startWith(w.config(), registry)
		r.state(Streaming)
		w.insert(20)
		w.delivered()
		want := map[string]float64{
			`walrelay_events_total{table="public.outbox"}`:         20,
			`walrelay_published_total{topic="outbox.event.order"}`: 20,
			`walrelay_oldest_unconfirmed_seconds`:                  0,
			`walrelay_in_flight_bytes`:                             0,
			`walrelay_state{state="streaming"}`:                    1,
			`walrelay_ready`:                                       1,
			`walrelay_producer_sessions_total`:                     1,
			`walrelay_slot_active`:                                 1,
			`walrelay_slot_wal_status{status="reserved"}`:          1,
			`walrelay_slot_wal_status{status="lost"}`:              0,
			`walrelay_slot_failover`:                               0,
			`walrelay_publication_ok`:                              1,
			`walrelay_lag_bytes{position="confirmed"}`:             -1, // there, whatever it is
			`walrelay_slot_retained_bytes`:                         -1,
		}
		eventually(t, "the metrics", func() bool {
			got := values(t, registry)
			for name, value := range want {
				if found, ok := got[name]; !ok || value >= 0 && found != value {
					t.Logf("%s is %v (%v), want %v", name, found, ok, value)
					return false
				}
			}
			return got["walrelay_checkpoint_saves_total"] > 0 && got["walrelay_kafka_requests_total"] > 0 &&
				got["walrelay_slot_checked_timestamp_seconds"] > 0
		})
	})
}

// values are the counters and gauges, by name and label.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, family := range gather(t, registry) {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, label := range m.Label {
				name += fmt.Sprintf("{%s=%q}", label.GetName(), label.GetValue())
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}
