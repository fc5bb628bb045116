package bench

import (
	"context"
	"fmt"
)

var drainColumns = []column{
	{"events/s", eventsPerSecond, ""}, {"÷ pg_recvlogical", eventsPerSecond, limit}, {"from start", fromStart, ""}, {"CPU µs", cpuEach, ""}, {"RSS MiB", peakRSS, ""},
	{"sender µs", senderEach, ""}, {"Postgres µs", serverEach, ""}, {"broker µs", brokerEach, ""}, {"WAL B", walEach, ""}, {"other s", otherCPU, ""},
}

var foreignColumns = []column{
	{"s", seconds, ""}, {"CPU s", cpuTotal, ""}, {"sender CPU s", senderTotal, ""}, {"RSS MiB", peakRSS, ""}, {"other s", otherCPU, ""},
}

var (
	single  = []workload{{name: "1 row/tx", rows: 300_000, perTx: 1}}
	hundred = []workload{{name: "100 rows/tx", rows: 1_000_000, perTx: 100}}

	rowsInTransaction = []workload{
		single[0],
		{name: "10 rows/tx", rows: 600_000, perTx: 10},
		hundred[0],
		{name: "1000 rows/tx", rows: 1_000_000, perTx: 1000},
	}
	payloads = []workload{
		{name: "bytea, 300 B", rows: 500_000, perTx: 100, bytea: true},
		{name: "4 KB", rows: 100_000, perTx: 100, size: 4 << 10},
		{name: "100 KB", rows: 5_000, perTx: 10, size: 100 << 10},
	}
	manyTopics = []workload{
		{name: "1 topic", rows: 500_000, perTx: 100, topics: 1},
		{name: "50 topics", rows: 500_000, perTx: 100, topics: 50},
		{name: "1,000 topics", rows: 500_000, perTx: 100, topics: 1000, partitions: 1},
	}
	compressions = []workload{
		{name: "none", rows: 500_000, perTx: 100},
		{name: "lz4", rows: 500_000, perTx: 100, environ: []string{"WALRELAY_KAFKA_COMPRESSION=lz4"}},
		{name: "zstd", rows: 500_000, perTx: 100, environ: []string{"WALRELAY_KAFKA_COMPRESSION=zstd"}},
	}
	sources = []workload{
		{name: "table", rows: 500_000, perTx: 100},
		{name: "10 tables", rows: 500_000, perTx: 100, tables: 10},
		{name: "messages", rows: 500_000, perTx: 100, messages: true, environ: byMessage},
		{name: "table, 1 row/tx", rows: 200_000, perTx: 1},
		{name: "messages, 1 row/tx", rows: 200_000, perTx: 1, messages: true, environ: byMessage},
	}
	sizes = []workload{
		{name: "100 k rows", rows: 100_000, perTx: 100},
		{name: "100 k behind 2 M", rows: 100_000, perTx: 100, standing: 2_000_000},
		{name: "500 k rows", rows: 500_000, perTx: 100},
		{name: "10 M rows", rows: 10_000_000, perTx: 100},
	}
	foreignLog     = []workload{{name: "20 events, 50 MiB of other tables' log before each", rows: 20, perTx: 1, foreign: 50}}
	oneTransaction = []workload{{name: "1 M rows in one", rows: 1_000_000, perTx: 1_000_000}}

	byMessage = []string{"WALRELAY_MESSAGES_ENABLED=true", "WALRELAY_MESSAGES_PREFIX=" + prefix, "WALRELAY_MESSAGES_TOPICS=outbox.event.*"}
)

// drains lets pg_recvlogical, walrelay and others take turns at each workload.
func drains(workloads []workload, others []program) func(context.Context, *stage, Options, *Section) error {
	return func(ctx context.Context, s *stage, o Options, section *Section) error {
		for _, w := range workloads {
			if err := s.alternate(ctx, o, w, append([]program{recvlogical, walrelay}, others...), section); err != nil {
				return err
			}
		}
		return nil
	}
}

// alternate lets programs take turns at a workload.
func (s *stage) alternate(ctx context.Context, o Options, w workload, list []program, section *Section) error {
	if w.foreign == 0 {
		w.rows = o.scaled(w.rows)
	}
	w.standing = int(float64(w.standing) * o.Scale)
	w.perTx = min(w.perTx, w.rows)
	d, err := s.load(ctx, w)
	if err != nil {
		return err
	}
	for range o.Runs {
		for _, p := range list {
			if !o.takesPart(p) {
				continue
			}
			f, err := s.undisturbed(w.name, p.name, drainColumns, func() (figures, error) {
				r, err := s.drain(ctx, d, p)
				return r.figures(), err
			})
			if err != nil {
				return err
			}
			section.add(w.name, p.name, f)
		}
	}
	if err := s.topics(w).remove(ctx); err != nil {
		return err
	}
	if err := d.close(ctx); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return nil
}
