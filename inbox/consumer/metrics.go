package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one consumer. The label group is constant.
type metrics struct {
	messages   *prometheus.CounterVec
	errors     *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	lag        *prometheus.GaugeVec
	rebalances prometheus.Counter
	forgotten  prometheus.Counter

	registerer prometheus.Registerer
}

func newMetrics(registerer prometheus.Registerer, group string) (*metrics, error) {
	const namespace, subsystem = "walrelay", "consumer"
	labels := prometheus.Labels{"group": group}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: labels}
	}
	m := &metrics{
		registerer: registerer,
		messages: prometheus.NewCounterVec(counter("messages_total",
			"Messages by what became of them: handled, known (handled before), failed (an attempt), dead_lettered, lost (at most once)."), []string{"topic", "result"}),
		errors:     prometheus.NewCounterVec(counter("errors_total", "Errors beside those of the handler, by what failed."), []string{"operation"}),
		rebalances: prometheus.NewCounter(counter("rebalances_total", "Assignments of partitions to this member.")),
		forgotten:  prometheus.NewCounter(counter("forgotten_total", "Old rows deleted from the inbox.")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "handle_seconds",
			Help: "Time of one call of the handler.", ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}, []string{"topic"}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "lag_messages",
			Help: "Messages of the partition that were not read yet, as of the last one read.", ConstLabels: labels}, []string{"topic", "partition"}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range m.collectors() {
		if err := registerer.Register(c); err != nil {
			m.unregister()
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.messages, m.errors, m.seconds, m.lag, m.rebalances, m.forgotten}
}

// unregister makes room for another Run of the group in this process.
func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors() {
		m.registerer.Unregister(c)
	}
}

// handled takes note of one call of the handler.
func (m *metrics) handled(topic string, messages, known int, took time.Duration, err error) {
	m.seconds.WithLabelValues(topic).Observe(took.Seconds())
	if err != nil {
		m.messages.WithLabelValues(topic, "failed").Add(float64(messages))
		return
	}
	m.messages.WithLabelValues(topic, "handled").Add(float64(messages - known))
	m.messages.WithLabelValues(topic, "known").Add(float64(known))
}
