package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/debezium"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/workload"
)

// debeziumWorker is a Debezium that a test starts, kills and starts again.
type debeziumWorker struct{ *debezium.Worker }

// newDebezium configures one for the tables of the workload.
func newDebezium(t *testing.T, postgres *pgtest.Server, kafka *kafkatest.Cluster) *debeziumWorker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first time downloads
	defer cancel()
	w, err := debezium.New(ctx, debezium.Options{
		Dir: t.TempDir(), Bootstrap: kafka.Bootstrap(), Progress: func(line string) { t.Log(line) },
		Port: int(postgres.Port()), Database: "postgres", Slot: "debezium", Publication: "dbz_publication", Table: "public.outbox",
		Worker: map[string]string{"offset.flush.interval.ms": "5000"}, // so far the slot trails; as shipped it is a minute
		Connector: map[string]string{
			"name":                        "orders-outbox",
			"publication.autocreate.mode": "filtered",
			"heartbeat.interval.ms":       "10000",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &debeziumWorker{w}
}

// start starts the worker. It is killed at the end of the test.
func (d *debeziumWorker) start(t *testing.T) {
	t.Helper()
	if err := d.Start("-Xmx512m", "-XX:+UseSerialGC"); err != nil {
		t.Fatal(err)
	}
	started := d.Process
	t.Cleanup(func() {
		if err := started.Kill(); err != nil {
			t.Error(err)
		}
	})
}

// awaitMore waits until Debezium has published n more records.
func (d *debeziumWorker) awaitMore(t *testing.T, kafka *kafkatest.Cluster, n int64) {
	t.Helper()
	have := topicsLength(t, kafka)
	awaitWithin(t, 5*time.Minute, 500*time.Millisecond, fmt.Sprintf("%d more records of Debezium", n), func() error {
		if !d.Running() {
			t.Fatalf("Debezium has ended (%v):\n%s", d.Err(), d.Said())
		}
		if now := topicsLength(t, kafka); now < have+n {
			return fmt.Errorf("%d so far; its log:\n%s", now-have, d.Said())
		}
		return nil
	})
}

// topicsLength is how many records the topics of the workload have that are there already.
func topicsLength(t *testing.T, kafka *kafkatest.Cluster) int64 {
	t.Helper()
	all, err := kafkatest.Topics(t.Context(), kafka.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(workload.Topics, name) })
	if len(all) == 0 {
		return 0
	}
	n, err := kafkatest.Length(t.Context(), kafka.Bootstrap(), all...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
