package relay

import (
	"context"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/router"
)

// A broker that is killed and comes back has forgotten the batches whose records are old. Whatever was under way then is in
// the topic once.
func TestRealOldEventsOnce(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{FastJVM: true})
	w := newWorld(t, pgtest.Shared(t, ""))
	w.brokers = cluster.Bootstrap()
	w.exec("alter table outbox add column at timestamptz not null default '2001-02-03'")
	// or Kafka deletes the records
	if err := cluster.CreateTopic(t.Context(), "outbox.event.order", 3, 1, map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	cfg := w.config()
	cfg.Tables = []Table{{Name: "public.outbox", Route: router.Config{Columns: router.Columns{Timestamp: "at"}}}}
	r := w.start(cfg)
	r.state(Streaming)
	for range 5 {
		killing := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			pause(ctx, 700*time.Millisecond)
			killing <- cluster.Kill(1)
		}()
		for len(killing) == 0 {
			w.insert(200)
		}
		cancel()
		if err := <-killing; err != nil {
			t.Fatal(err)
		}
		if err := cluster.StartNode(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it goes on", func() bool { return r.Status().State == Streaming && r.Status().InFlight == 0 })
	}
	w.insert(10)
	for _, record := range w.delivered() {
		if record.Timestamp.Year() != 2001 {
			t.Fatalf("event %s has the time %v", header(record, "id"), record.Timestamp)
		}
	}
	t.Logf("%d events", w.next)
}
