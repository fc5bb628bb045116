package relay

import (
	"strings"
	"testing"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

func (w *world) ask(kind checkpoint.RequestKind, event string) int64 {
	w.t.Helper()
	id, err := checkpoint.Ask(w.t.Context(), w.db, w.slotName(), kind, event, "because")
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) outcome(id int64) string {
	w.t.Helper()
	var outcome string
	eventually(w.t, "the request is done", func() bool {
		var err error
		if outcome, err = checkpoint.Outcome(w.t.Context(), w.db, id); err != nil {
			w.t.Fatal(err)
		}
		return outcome != ""
	})
	return outcome
}

func TestPauseLastsOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	r := w.start(w.config())
	r.state(Streaming)
	if got := w.outcome(w.ask(checkpoint.Pause, "")); got != "paused" {
		t.Errorf("outcome %q", got)
	}
	r.state(Paused)
	w.insert(3)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	r = w.start(w.config())
	r.state(Paused)
	if n := len(w.records()); n != 1 {
		t.Errorf("%d events were published while paused", n-1)
	}
	if got := w.outcome(w.ask(checkpoint.Resume, "")); got != "resumed" {
		t.Errorf("outcome %q", got)
	}
	w.delivered()
	r.state(Streaming)
}

// An event without a topic halts; the status names it; skipping it lets the rest go on.
func TestSkip(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null")
	r := w.start(w.config())
	r.state(Streaming)
	w.exec("insert into outbox values (1000, null, 'k', 't', '{}')")
	r.state(Halted)
	w.insert(5)
	_, event, _ := strings.Cut(r.Status().Reason, "event ")
	event, _, _ = strings.Cut(event, ": ")
	if got := w.outcome(w.ask(checkpoint.Skip, event)); got != "skipped" {
		t.Errorf("outcome %q of skipping %q", got, event)
	}
	w.delivered()
	if got := w.outcome(w.ask(checkpoint.Skip, event)); !strings.Contains(got, "past") {
		t.Errorf("skipping it again: %q", got)
	}
}

func TestDeadLetterTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null")
	if err := kafkatest.CreateTopic(t.Context(), w.brokers, "outbox.event.small", 1, 1, map[string]string{"max.message.bytes": "1000"}); err != nil {
		t.Fatal(err)
	}
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	r := w.start(cfg)
	r.state(Streaming)
	w.exec("insert into outbox values (1000, null, 'k', 't', '{}')")
	w.exec("insert into outbox values (1001, 'not/legal', 'k', 't', '{}')")
	w.exec("insert into outbox select 1002, 'small', 'k', 't', to_jsonb(string_agg(md5(i::text), '')) from generate_series(1, 100) i")
	w.exec("insert into outbox values (1003, 'small', 'k', 't', '{}')")
	var dead, small []kafkatest.Record
	eventually(t, "three dead letters", func() bool {
		dead, small = nil, nil
		for _, record := range w.records() {
			switch record.Topic {
			case "dead":
				dead = append(dead, record)
			case "outbox.event.small":
				small = append(small, record)
			}
		}
		return len(dead) == 3 && len(small) == 1
	})
	if header(small[0], "id") != "1003" {
		t.Errorf("in the topic: event %s", header(small[0], "id"))
	}
	for _, want := range []struct{ id, reason, topic, value string }{
		{"1000", "NULL", "", "{}"},
		{"1001", "illegal topic name", "", "{}"},
		{"1002", "MESSAGE_TOO_LARGE", "outbox.event.small", ""},
	} {
		found := false
		for _, record := range dead {
			if header(record, "id") != want.id {
				continue
			}
			found = true
			if !strings.Contains(header(record, headerError), want.reason) || header(record, headerTopic) != want.topic ||
				string(record.Value) != want.value || header(record, "walrelay.lsn") == "" {
				t.Errorf("dead letter %s: value %q, headers %q", want.id, record.Value, record.Headers)
			}
		}
		if !found {
			t.Errorf("event %s is not among the dead letters", want.id)
		}
	}
	eventually(t, "the slot moves on", func() bool { _, saved := w.row(); return r.Status().InFlight == 0 && w.slotPosition() == saved })
}

// A dead letter whose limit was raised before the next start stays one: published after all it would stand behind its
// successors, which would all come again.
func TestRaisedLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	cfg.Kafka.BatchBytes, cfg.Kafka.MaxRecordBytes = 1<<10, 1<<10
	r := w.start(cfg)
	r.state(Streaming)
	tx, err := w.db.Begin(t.Context()) // the row cannot be saved, as before a kill
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from walrelay.checkpoint for update"); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, w.url, "insert into outbox select 1, 'order', 'k1', 't', to_jsonb(string_agg(md5(i::text), '')) from generate_series(1, 100) i")
	w.next++
	w.insertOn(w.url, 70)
	eventually(t, "all are in Kafka", func() bool { return len(w.records()) == w.next })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	cfg.Kafka = w.config().Kafka
	r = w.start(cfg)
	w.insert(10)
	eventually(t, "everything is saved", func() bool {
		_, saved := w.row()
		return saved == w.slotPosition() && r.Status().InFlight == 0 && len(w.records()) >= w.next
	})
	seen := map[string]bool{}
	for _, record := range w.records() {
		if id := header(record, "id"); seen[id] {
			t.Errorf("event %s is there twice", id)
		}
		seen[header(record, "id")] = true
		if dead := record.Topic == "dead"; dead != (header(record, "id") == "1") {
			t.Errorf("event %s is in topic %s", header(record, "id"), record.Topic)
		}
	}
}
