package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/replication"
)

// takenOver is a world whose slot somebody else has used until now: they have published the first n events, of which
// they have confirmed none.
func takenOver(t *testing.T, n, of int) (*world, Config) {
	t.Helper()
	w := newWorld(t, pgtest.Shared(t, ""))
	cfg := w.config()
	cfg.Postgres.Slot, cfg.Postgres.Publication = fmt.Sprintf("theirs_%x", time.Now().UnixNano()), "ours"
	w.exec(`create publication ours for table outbox with (publish = 'insert')`)
	w.exec(`select pg_create_logical_replication_slot($1, 'pgoutput')`, cfg.Postgres.Slot)
	eventually(t, "the slot is past the publication", func() bool {
		w.exec(`checkpoint`)
		w.exec(`select pg_replication_slot_advance($1, pg_current_wal_lsn())`, cfg.Postgres.Slot)
		found, err := replication.Inspect(t.Context(), w.db, cfg.Postgres.Slot, cfg.Postgres.Publication)
		return err == nil && found.Publication.Passed
	})
	for range of {
		w.insert(1)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		result := client.ProduceSync(t.Context(), &kgo.Record{
			Topic: "outbox.event.order", Key: fmt.Append(nil, "k", i%7), Value: fmt.Appendf(nil, `{"n": %d}`, i),
			Headers: []kgo.RecordHeader{{Key: "__debezium.context.taskId", Value: []byte("0")}, {Key: "id", Value: fmt.Append(nil, i)}},
		})
		if err := result.FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return w, cfg
}

func (w *world) adoption(byID bool) replication.AdoptOptions {
	return replication.AdoptOptions{Check: w.config().Fits, MatchByID: byID, IDColumns: map[string]string{replication.DefaultTable: "id"}}
}

// matching tells whether the row still wants records to be matched by id.
func (w *world) matching() (yes bool) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), `select match_by_id from walrelay.checkpoint`).Scan(&yes); err != nil {
		w.t.Fatal(err)
	}
	return yes
}

// What they have published and not confirmed is not published again, and from then on ids mean nothing.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w, cfg := takenOver(t, 20, 30)
	if _, err := replication.Adopt(t.Context(), cfg.Postgres, w.adoption(true)); err != nil {
		t.Fatal(err)
	}
	w.start(cfg)
	theirs := 0
	for _, r := range w.delivered() {
		if header(r, "walrelay.lsn") == "" {
			theirs++
		}
	}
	if theirs != 20 {
		t.Errorf("%d records are theirs, want 20", theirs)
	}
	eventually(t, "the relay is past what they may have published", func() bool { return !w.matching() })
	w.exec(`delete from outbox where id = 3`)
	w.exec(`insert into outbox values (3, 'order', 'k3', 'Again', '{"n": 3}')`) // to publish it again, on purpose
	eventually(t, "an id that comes again is another event", func() bool { return len(w.records()) == 31 })
}

// Without the wish, ids mean nothing, and what they have published comes twice.
func TestTakeOverWithoutMatching(t *testing.T) {
	t.Parallel()
	w, cfg := takenOver(t, 5, 10)
	if _, err := replication.Adopt(t.Context(), cfg.Postgres, w.adoption(false)); err != nil {
		t.Fatal(err)
	}
	w.start(cfg)
	eventually(t, "all events of the slot", func() bool { return len(w.records()) == 15 })
}

// A stop in the middle of the range does not end the matching.
func TestTakeOverGoesOnAfterAStop(t *testing.T) {
	t.Parallel()
	w, cfg := takenOver(t, 20, 30)
	if _, err := replication.Adopt(t.Context(), cfg.Postgres, w.adoption(true)); err != nil {
		t.Fatal(err)
	}
	unreachable := cfg
	unreachable.Kafka.Brokers, unreachable.DrainTimeout = []string{"127.0.0.1:1"}, time.Millisecond
	r := w.start(unreachable)
	eventually(t, "the relay has read on", func() bool { return r.progress.receivedEnd.Load() > 0 || r.Status().State == Streaming })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if !w.matching() {
		t.Fatal("the mark is gone, and nothing was published")
	}
	w.exec(`update walrelay.checkpoint set state = 'clean'`) // as after a stop before the first event
	w.start(cfg)
	w.delivered()
	eventually(t, "the relay is past what they may have published", func() bool { return !w.matching() })
}

// The one-line way out of a foreign Kafka cluster is the one that the refusal names.
func TestAdoptAnotherKafkaCluster(t *testing.T) {
	t.Parallel()
	w, cfg := takenOver(t, 0, 1)
	if _, err := replication.Adopt(t.Context(), cfg.Postgres, w.adoption(false)); err != nil {
		t.Fatal(err)
	}
	w.exec(`update walrelay.checkpoint set kafka_cluster_id = 'main'`)
	r := w.start(cfg)
	err := <-r.done
	r.done <- err
	var stop *StopError
	if !errors.As(err, &stop) || !strings.Contains(stop.Error(), "walrelay slot adopt --new-kafka-cluster") {
		t.Fatalf("got %v", err)
	}
	options := w.adoption(false)
	options.NewKafkaCluster = true
	if _, err := replication.Adopt(t.Context(), cfg.Postgres, options); err != nil {
		t.Fatal(err)
	}
	w.start(cfg)
	w.delivered()
}
