package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/walrelay/walrelay/kafka"
)

// metrics are counted where things happen; what is a state is read at scrape time, see gauges. The registry is the
// caller's.
type metrics struct {
	events     *prometheus.CounterVec
	bytes      *prometheus.CounterVec
	filtered   *prometheus.CounterVec
	suppressed *prometheus.CounterVec
	untimely   *prometheus.CounterVec
	ignored    prometheus.Counter
	topics     *topics
	errors     *prometheus.CounterVec
	reconnects prometheus.Counter
	saves      prometheus.Counter
	ackSeconds prometheus.Histogram
	produce    prometheus.Histogram
	batch      prometheus.Histogram
	batchBytes prometheus.Histogram
}

const namespace = "walrelay"

// errorClasses are the values of the label class, see classOf.
var errorClasses = []string{"postgres", "kafka", "checkpoint", "relay"}

func newMetrics(registry prometheus.Registerer) *metrics {
	new := factory{registry}
	m := &metrics{
		events:     new.counters("events_total", "Outbox rows handed to the producer, by table (\"messages\" for an outbox without a table).", "table"),
		bytes:      new.counters("event_bytes_total", "Payload bytes of the rows handed to the producer, by table.", "table"),
		filtered:   new.counters("events_filtered_total", "Outbox rows that the configured filter left out, by table.", "table"),
		suppressed: new.counters("events_suppressed_total", "Outbox rows that the run before had published already, by table.", "table"),
		untimely: new.counters("timestamps_replaced_total",
			"Events whose timestamp column Kafka would not take and that have the commit time instead, by table.", "table"),
		ignored: new.counter("messages_ignored_total",
			"Messages under our prefix that are no events, since they are in no transaction; each connection may see them again."),
		errors:     new.counters("errors_total", "Errors by where they happened: postgres, kafka, checkpoint, relay.", "class"),
		reconnects: new.counter("reconnects_total", "Connections to the replication slot after the first."),
		saves:      new.counter("checkpoint_saves_total", "Times that the checkpoint row was written."),
		ackSeconds: new.histogram("commit_to_ack_seconds",
			"Time from commit in Postgres (from a timestamp column where one replaces it) to Kafka's acknowledgement, of a batch's oldest record.",
			seconds),
		produce: new.histogram("produce_seconds", "Time of one produce request, from sending to the acknowledgement.", seconds),
		batch: new.histogram("batch_records", "Records in an acknowledged batch.",
			prometheus.ExponentialBuckets(1, 4, 8)),
		batchBytes: new.histogram("batch_bytes", "Size of an acknowledged batch on the wire.",
			prometheus.ExponentialBuckets(256, 4, 7)),
	}
	m.topics = newTopics(
		new.counters("published_total", "Records that Kafka has acknowledged, by topic; beyond 100 topics under \"other\".", "topic"),
		new.counters("published_bytes_total", "Bytes on the wire of these records, by topic; beyond 100 topics under \"other\".", "topic"))
	for _, class := range errorClasses {
		m.errors.WithLabelValues(class)
	}
	return m
}

// seconds are the buckets of times: half a millisecond to a minute.
var seconds = prometheus.ExponentialBuckets(0.0005, 2, 18)

// factory makes metrics that are registered.
type factory struct{ registry prometheus.Registerer }

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	f.registry.MustRegister(c)
	return c
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	f.registry.MustRegister(c)
	return c
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
	f.registry.MustRegister(h)
	return h
}

func (m *metrics) routed(r *route) {
	m.events.WithLabelValues(r.table).Add(float64(r.events))
	m.bytes.WithLabelValues(r.table).Add(float64(r.bytes))
	m.filtered.WithLabelValues(r.table).Add(float64(r.filtered))
	m.suppressed.WithLabelValues(r.table).Add(float64(r.suppressed))
	m.untimely.WithLabelValues(r.table).Add(float64(r.untimely))
}

// acknowledged is called by the producer for every batch, from its own goroutines.
func (m *metrics) acknowledged(b kafka.BatchAck, now time.Time) {
	m.topics.published(b.Topic, b.Records, b.Bytes, now)
	m.batch.Observe(float64(b.Records))
	m.batchBytes.Observe(float64(b.Bytes))
	m.produce.Observe(b.Produce.Seconds())
	m.ackSeconds.Observe(now.Sub(time.UnixMilli(b.Oldest)).Seconds())
}

func (m *metrics) failed(class string) { m.errors.WithLabelValues(class).Inc() }

// BuildInfo is a metric of the value 1 that tells which program runs.
func BuildInfo(version, commit, goVersion string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with version, commit and Go version of the program as labels.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": goVersion},
	})
	info.Set(1)
	return info
}
