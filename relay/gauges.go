package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/walrelay/walrelay/kafka"
)

// gauges are read at scrape time from the status and from the producer's figures. Numbers that somebody else counts, such
// as the server, are counters here too.
type gauges struct {
	status func() Status
	stats  func() producerStats
	descs  map[string]*prometheus.Desc
}

// gauge describes one of them.
type gauge struct {
	name, help string
	labels     []string
}

// gaugeList is everything that gauges can show.
var gaugeList = []gauge{
	{"lag_bytes", "Bytes of log from a position to the server's end of log: received, confirmed (by Kafka's acknowledgements), saved (in the checkpoint row), slot (what Postgres has been told).", []string{"position"}},
	{"lag_seconds", "How long ago the server's log passed that position, to within ten seconds; 0 while it ends there.", []string{"position"}},
	{"oldest_unconfirmed_seconds", "Age of the oldest transaction with an unacknowledged event; 0 when there is none.", nil},
	{"in_flight_messages", "Messages handed to the producer and not acknowledged.", nil},
	{"in_flight_bytes", "Bytes of these messages, encoded.", nil},
	{"ready", "1 when the relay is ready as /readyz understands it.", nil},
	{"live", "1 when the relay is alive as /healthz understands it.", nil},
	{"state", "1 for the state the relay is in.", []string{"state"}},
	{"kafka_trouble", "1 for the kind of trouble that keeps records from getting through; the gravest alone.", []string{"kind"}},
	{"publication_ok", "0 when the publication, or an outbox table in it, was changed so that rows may not be in the stream.", nil},
	{"checkpoint_unsaved_seconds", "For how long the checkpoint row could not be written; 0 while it can.", nil},
	{"restart_needed", "1 when the configuration was changed and reloaded, and not all of it can take effect without a restart.", nil},
	{"dead_letters_total", "Events that went to the dead-letter topic.", nil},
	{"events_skipped_total", "Events that a person had left out.", nil},
	{"retries_total", "Batches that were sent again, by cause: leader (moved, or none), replicas (too few in sync), timeout (of the followers), connection (lost, or no answer), other.", []string{"cause"}},
	{"producer_sessions_total", "Producers that were begun; each one after the first is a new run or a session that Kafka ended.", nil},
	{"kafka_requests_total", "Produce requests that were sent.", nil},
	{"kafka_throttled_seconds_total", "For how long brokers throttled this client.", nil},
	{"slot_checked_timestamp_seconds", "When the server was last asked about the slot; what the slot_ metrics say is of that time.", nil},
	{"slot_watch", "1 for the level of danger that the slot is in: ok, warn (at half of max_slot_wal_keep_size, or slot_watch.warn_bytes), unready (at four fifths, or slot_watch.unready_bytes).", []string{"level"}},
	{"slot_wal_status", "1 for the slot's wal_status, or for missing.", []string{"status"}},
	{"slot_invalidated", "1 with the reason for which the slot can never be used again; absent while it can (Postgres 17 and later).", []string{"reason"}},
	{"slot_active", "1 when somebody streams from the slot.", nil},
	{"slot_retained_bytes", "Log that the slot makes the server keep.", nil},
	{"slot_limit_bytes", "Log that it may keep (max_slot_wal_keep_size); absent without a limit.", nil},
	{"slot_safe_bytes", "Log that may still be written until the slot is in danger (safe_wal_size); absent without a limit.", nil},
	{"slot_restart_age_seconds", "How long ago the server's log passed the slot's restart_lsn, as far as that was watched.", nil},
	{"slot_catalog_xmin_age", "Transaction ids since the slot's catalog_xmin: catalog rows of that age cannot be vacuumed.", nil},
	{"slot_oldest_transaction_seconds", "Age of the server's oldest write transaction, which keeps log whatever is confirmed; 0 under a minute.", nil},
	{"slot_failover", "1 when the slot goes along to standbys (Postgres 17 and later).", nil},
	{"slot_synced", "1 when the slot came from a primary (Postgres 17 and later).", nil},
	{"slot_decoded_transactions_total", "Transactions that the server decoded for the slot, since its statistics were reset.", nil},
	{"slot_decoded_bytes_total", "Bytes that the server decoded for the slot.", nil},
	{"slot_spilled_transactions_total", "Decoded transactions that did not fit logical_decoding_work_mem and went to disk.", nil},
	{"slot_spills_total", "Times that the server wrote decoded changes to disk.", nil},
	{"slot_spilled_bytes_total", "Bytes that it wrote.", nil},
}

// allStates are all values of the label state.
var allStates = []State{Starting, Standby, Streaming, Drained, Paused, Halted, Draining, Stopped}

func newGauges(status func() Status, stats func() producerStats) *gauges {
	g := &gauges{status: status, stats: stats, descs: make(map[string]*prometheus.Desc)}
	for _, d := range gaugeList {
		g.descs[d.name] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", d.name), d.help, d.labels, nil)
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	s, stats := g.status(), g.stats()
	to := exposition{out, g.descs}
	for _, lag := range s.Lag {
		to.gauge("lag_bytes", float64(lag.Bytes), lag.Position)
		to.gauge("lag_seconds", lag.Seconds, lag.Position)
	}
	to.gauge("oldest_unconfirmed_seconds", s.LagSeconds)
	to.gauge("in_flight_messages", float64(s.InFlight))
	to.gauge("in_flight_bytes", float64(stats.InFlightBytes))
	to.gauge("ready", number(s.Ready))
	to.gauge("live", number(s.Live))
	for _, state := range allStates {
		to.gauge("state", number(state == s.State), string(state))
	}
	for _, kind := range kafka.Kinds() {
		to.gauge("kafka_trouble", number(kind == s.Trouble), string(kind))
	}
	to.gauge("publication_ok", number(!s.PublicationChanged))
	to.gauge("checkpoint_unsaved_seconds", s.UnsavedSeconds)
	to.gauge("restart_needed", number(s.RestartNeeded))
	to.counter("dead_letters_total", float64(s.DeadLetters))
	to.counter("events_skipped_total", float64(s.Skipped))
	to.produced(stats)
	if s.Server != nil {
		to.slot(s.Server)
	}
}

// exposition makes metrics of values.
type exposition struct {
	out   chan<- prometheus.Metric
	descs map[string]*prometheus.Desc
}

func (to exposition) gauge(name string, value float64, labels ...string) {
	to.out <- prometheus.MustNewConstMetric(to.descs[name], prometheus.GaugeValue, value, labels...)
}

func (to exposition) counter(name string, value float64, labels ...string) {
	to.out <- prometheus.MustNewConstMetric(to.descs[name], prometheus.CounterValue, value, labels...)
}

func (to exposition) produced(stats producerStats) {
	r := stats.Retries
	for cause, n := range map[string]uint64{
		"leader": r.Leader, "replicas": r.Replicas, "timeout": r.Timeout, "connection": r.Connection, "other": r.Other,
	} {
		to.counter("retries_total", float64(n), cause)
	}
	to.counter("producer_sessions_total", float64(stats.Sessions))
	to.counter("kafka_requests_total", float64(stats.Requests))
	to.counter("kafka_throttled_seconds_total", float64(stats.ThrottleMillis)/1000)
}

func (to exposition) slot(s *SlotStatus) {
	to.gauge("slot_checked_timestamp_seconds", float64(s.At.UnixMilli())/1000)
	for _, level := range slotLevels {
		to.gauge("slot_watch", number(level == s.Finding.Level), string(level))
	}
	for _, status := range walStatuses {
		to.gauge("slot_wal_status", number(status == s.WALStatus), status)
	}
	if s.Invalidation != "" {
		to.gauge("slot_invalidated", 1, s.Invalidation)
	}
	to.gauge("slot_active", number(s.Active))
	to.gauge("slot_retained_bytes", float64(s.RetainedBytes))
	if s.LimitBytes > 0 {
		to.gauge("slot_limit_bytes", float64(s.LimitBytes))
	}
	if s.SafeBytes != nil {
		to.gauge("slot_safe_bytes", float64(*s.SafeBytes))
	}
	oldest := 0.0
	if len(s.Pins) > 0 {
		oldest = s.At.Sub(s.Pins[0].Begun).Seconds()
	}
	to.gauge("slot_restart_age_seconds", s.RestartAge)
	to.gauge("slot_catalog_xmin_age", float64(s.CatalogAge))
	to.gauge("slot_oldest_transaction_seconds", oldest)
	to.gauge("slot_failover", number(s.Failover))
	to.gauge("slot_synced", number(s.Synced))
	d := s.Decoding
	to.counter("slot_decoded_transactions_total", float64(d.Transactions))
	to.counter("slot_decoded_bytes_total", float64(d.Bytes))
	to.counter("slot_spilled_transactions_total", float64(d.SpilledTransactions))
	to.counter("slot_spills_total", float64(d.Spills))
	to.counter("slot_spilled_bytes_total", float64(d.SpilledBytes))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
