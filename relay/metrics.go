package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/walrelay/walrelay/kafka"
)

// metrics are the relay's own; the registry is the caller's.
type metrics struct {
	events     *prometheus.CounterVec
	bytes      *prometheus.CounterVec
	filtered   *prometheus.CounterVec
	suppressed *prometheus.CounterVec
	untimely   *prometheus.CounterVec
	ignored    prometheus.Counter
	published  *prometheus.CounterVec
	errors     *prometheus.CounterVec
	reconnects prometheus.Counter
	ackSeconds prometheus.Histogram
	produce    prometheus.Histogram
	batch      prometheus.Histogram
}

const namespace = "walrelay"

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		})
	}
	m := &metrics{
		events:     counter("events_total", "Outbox rows handed to the producer, by table (\"messages\" for an outbox without a table).", "table"),
		bytes:      counter("event_bytes_total", "Payload bytes of the rows handed to the producer, by table.", "table"),
		filtered:   counter("events_filtered_total", "Outbox rows that the configured filter left out, by table.", "table"),
		suppressed: counter("events_suppressed_total", "Outbox rows that the run before had published already, by table.", "table"),
		untimely: counter("timestamps_replaced_total",
			"Events whose timestamp column Kafka would not take and that have the commit time instead, by table.", "table"),
		ignored: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "messages_ignored_total",
			Help: "Messages under our prefix that are no events, since they are in no transaction; each connection may see them again."}),
		published: counter("published_total", "Records that Kafka has acknowledged, by topic.", "topic"),
		errors:    counter("errors_total", "Errors by where they happened: postgres, kafka, checkpoint, relay.", "class"),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "reconnects_total",
			Help: "Connections to the replication slot after the first."}),
		ackSeconds: seconds("commit_to_ack_seconds", "Time from commit in Postgres to Kafka's acknowledgement, of a batch's oldest record."),
		produce:    seconds("produce_seconds", "Time of one produce request, from sending to the acknowledgement."),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "batch_records",
			Help: "Records in an acknowledged batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 8)}),
	}
	for _, class := range []string{"postgres", "kafka", "checkpoint", "relay"} {
		m.errors.WithLabelValues(class)
	}
	registry.MustRegister(m.events, m.bytes, m.filtered, m.suppressed, m.untimely, m.ignored, m.published, m.errors, m.reconnects, m.ackSeconds, m.produce, m.batch)
	return m
}

func (m *metrics) routed(r *route) {
	m.events.WithLabelValues(r.table).Add(float64(r.events))
	m.bytes.WithLabelValues(r.table).Add(float64(r.bytes))
	m.filtered.WithLabelValues(r.table).Add(float64(r.filtered))
	m.suppressed.WithLabelValues(r.table).Add(float64(r.suppressed))
	m.untimely.WithLabelValues(r.table).Add(float64(r.untimely))
}

// acknowledged is called by the producer for every batch, from its own goroutines.
func (m *metrics) acknowledged(b kafka.BatchAck) {
	m.published.WithLabelValues(b.Topic).Add(float64(b.Records))
	m.batch.Observe(float64(b.Records))
	m.produce.Observe(b.Produce.Seconds())
	m.ackSeconds.Observe(time.Since(time.UnixMilli(b.Oldest)).Seconds())
}

func (m *metrics) failed(class string) { m.errors.WithLabelValues(class).Inc() }
