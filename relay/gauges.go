package relay

import "github.com/prometheus/client_golang/prometheus"

// gauges are read from the progress at scrape time.
type gauges struct {
	status func() Status

	lagBytes, lagSeconds, inFlight, retained, ready, state *prometheus.Desc
}

func newGauges(status func() Status) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return &gauges{
		status:     status,
		lagBytes:   desc("lag_bytes", "Bytes of log between the server's end of log and the position confirmed by Kafka's acknowledgements."),
		lagSeconds: desc("lag_seconds", "Age of the oldest transaction with an unacknowledged event; 0 when there is none."),
		inFlight:   desc("in_flight_messages", "Messages handed to the producer and not acknowledged."),
		retained:   desc("slot_retained_bytes", "Log that the slot makes the server keep."),
		ready:      desc("ready", "1 when the relay is ready as /readyz understands it."),
		state:      desc("state", "1 for the state the relay is in.", "state"),
	}
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, out) }

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	status := g.status()
	gauge(g.lagBytes, float64(status.LagBytes))
	gauge(g.lagSeconds, status.LagSeconds)
	gauge(g.inFlight, float64(status.InFlight))
	gauge(g.retained, float64(status.RetainedBytes))
	gauge(g.ready, number(status.Ready))
	for _, state := range []State{Starting, Standby, Streaming, Drained, Paused, Halted, Draining, Stopped} {
		gauge(g.state, number(state == status.State), string(state))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
