package relay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// uncleanly publishes n events in transactions of their own with a relay whose row cannot be saved: the next relay is sent
// all of them again, as after a kill.
func (w *world) uncleanly(cfg Config, n int) {
	w.t.Helper()
	r := w.start(cfg)
	r.state(Streaming)
	lock, err := w.db.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := lock.Exec(w.t.Context(), "select from walrelay.checkpoint for update"); err != nil {
		w.t.Fatal(err)
	}
	before := len(w.records())
	for range n {
		w.insertOn(w.url, 1)
	}
	eventually(w.t, "all of them", func() bool { return len(w.records()) == before+n })
	if err := r.end(); err != nil {
		w.t.Fatal(err)
	}
	if err := lock.Rollback(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// The mapping is another one after an unclean stop. Nothing is lost, no key goes back, and what would be the same record in
// the same topic is not published again.
func TestMappingChangesAfterAnUncleanStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*Table)
		repeated bool   // what was not saved goes out again: it is another event, or in another topic
		topic    string // of everything from then on
	}{
		"another key":   {func(table *Table) { table.Route.Columns.Key = "id" }, false, "outbox.event.order"},
		"another topic": {func(table *Table) { table.Route.Route.Replacement = "events.${routedByValue}" }, true, "events.order"},
		"another id":    {func(table *Table) { table.Route.Columns.ID = "type" }, true, "outbox.event.order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pgtest.Shared(t, ""))
			w.runOnce()
			w.uncleanly(w.config(), 10)
			unsaved := w.next - 1
			cfg := w.config()
			cfg.Tables = []Table{{Name: "public.outbox"}}
			c.change(&cfg.Tables[0])
			r := w.start(cfg)
			r.state(Streaming)
			for range 10 {
				w.insert(1)
			}
			want := w.next
			if c.repeated {
				want += unsaved
			}
			eventually(t, fmt.Sprintf("%d records", want), func() bool { return len(w.records()) >= want })
			w.caughtUp(r)
			if n := len(w.records()); n != want {
				t.Errorf("%d records, want %d", n, want)
			}
			w.ends(c.topic, 10)
		})
	}
}

// ends checks that a topic ends with the last n events, each partition in order.
func (w *world) ends(topic string, n int) {
	w.t.Helper()
	var last []int
	order := map[int32]int{}
	for _, r := range w.records() {
		var id int
		if _, err := fmt.Sscanf(string(r.Value), `{"n": %d}`, &id); err != nil {
			if _, err := fmt.Sscanf(string(r.Value), `"{\"n\": %d}"`, &id); err != nil {
				w.t.Fatalf("value %s: %v", r.Value, err)
			}
		}
		if r.Topic != topic || id < w.next-n {
			continue
		}
		if id < order[r.Partition] {
			w.t.Errorf("partition %d: event %d stands behind %d", r.Partition, id, order[r.Partition])
		}
		order[r.Partition] = id
		last = append(last, id)
	}
	slices.Sort(last)
	for i, id := range last {
		if len(last) != n || id != w.next-n+i {
			w.t.Fatalf("topic %s has %v, want the last %d of %d", topic, last, n, w.next)
		}
	}
}

// A topic has more partitions when the relay comes back from an unclean stop: keys live elsewhere, and what is in their old
// partitions is found all the same.
func TestMorePartitionsAfterAnUncleanStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	w.uncleanly(w.config(), 20)
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "outbox.event.order", Count: 3 * kafkatest.Partitions}}
	grow.TimeoutMillis = 1000
	if answer, err := grow.RequestWith(t.Context(), client); err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatal(answer, err)
	}
	r := w.start(w.config())
	r.state(Streaming)
	for range 20 {
		w.insert(1)
	}
	w.caughtUp(r)
	w.ends("outbox.event.order", 20)
	if n := len(w.records()); n != w.next {
		t.Errorf("%d records of %d events", n, w.next)
	}
}
