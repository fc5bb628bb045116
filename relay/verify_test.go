package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/internal/pgtest"
)

func (w *world) verify(o VerifyOptions) audit.Report {
	w.t.Helper()
	report, err := Verify(w.t.Context(), w.config(), o, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestVerify(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := published(t, s)
		if got := w.verify(VerifyOptions{}); got.Rows != 10 || got.Found != 10 || got.Records != 10 || differs(got) || got.Foreign.Count != 0 || !got.Provable {
			t.Errorf("all is well: %+v", got)
		}
		w.insert(2)
		w.exec("insert into outbox values (100, 'other', 'x', 'Created')")
		w.exec("delete from outbox where id = 3")
		w.exec("update outbox set payload = '{}' where id = 4")
		w.produce("k5", "5") // with another value, so it is no duplicate
		got := w.verify(VerifyOptions{})
		if got.Rows != 12 || got.Missing.Count != 4 || got.Found != 8 || got.Foreign.Count != 3 || got.Duplicated.Count+got.OutOfOrder.Count != 0 || got.Provable {
			t.Errorf("after changes: %+v", got)
		}
		if all := strings.Join(got.Missing.Examples, ", "); !strings.Contains(all, "public.outbox id 100 (key x, topic outbox.event.other)") ||
			!strings.Contains(all, "id 4 (key k4") {
			t.Errorf("missing: %s", all)
		}
		if got = w.verify(VerifyOptions{Select: audit.Selection{FirstID: "5", LastID: "10"}}); got.Rows != 6 || got.Missing.Count != 1 || got.Foreign.Count != 1 {
			t.Errorf("ids 5..10: %+v", got)
		}
		w.exec("alter table outbox add created_at timestamptz")
		w.exec("update outbox set created_at = now() - interval '1 day' * (12 - id) where id < 12")
		since := audit.Selection{Since: time.Now().Add(-3*24*time.Hour - time.Hour)}
		if got = w.verify(VerifyOptions{Select: since}); got.Rows != 3 || got.Missing.Count != 2 || got.Foreign.Count != 0 {
			t.Errorf("since three days: %+v", got)
		}
	})
}

func differs(r audit.Report) bool {
	return r.Missing.Count+r.Duplicated.Count+r.OutOfOrder.Count+r.Unpublishable.Count > 0
}

// A relay that publishes meanwhile is waited for, and what is younger than the look counts for nothing.
func TestVerifyWhileARelayRuns(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.insert(500)
	started := false
	got := w.verify(VerifyOptions{Wait: 30 * time.Second, Progress: func(p audit.Progress) {
		if p.Step == "reading topics" && !started {
			started = true
			w.start(w.config()).state(Streaming)
			w.insert(100)
		}
	}})
	if got.Rows != 510 || differs(got) || got.Foreign.Count != 0 {
		t.Errorf("got %+v", got)
	}
}

// The dead-letter topic and rows that no record can be made of are told apart from what is missing.
func TestVerifyDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null")
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	r := w.start(cfg)
	r.state(Streaming)
	w.exec("insert into outbox values (1, null, 'k', 't', '{}'), (2, 'not/legal', 'k', 't', '{}'), (3, 'order', 'k', 't', '{}')")
	eventually(t, "all are somewhere", func() bool { return len(w.records()) == 3 })
	got, err := Verify(t.Context(), cfg, VerifyOptions{}, nil)
	if err != nil || got.Buried != 2 || got.Found != 1 || differs(got) {
		t.Errorf("with the topic: %+v, %v", got, err)
	}
	got = w.verify(VerifyOptions{})
	if got.Unpublishable.Count != 2 || got.Missing.Count != 0 || !strings.Contains(got.Unpublishable.Examples[0], "NULL") {
		t.Errorf("without it: %+v", got)
	}
}
