package relay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// reconnect is for a server that was restarted.
func (w *world) reconnect() {
	w.t.Helper()
	w.moveTo(w.url)
}

// upgradable asks a server in the mode of an upgrade what pg_upgrade --check asks of it, and stops it again.
func (w *world) upgradable(s *pgtest.Server) bool {
	w.t.Helper()
	if err := s.StartForUpgrade(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	db, err := pgx.Connect(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	var passed bool
	err = db.QueryRow(w.t.Context(), `select binary_upgrade_logical_slot_has_caught_up(slot_name) from pg_replication_slots
		where database = current_database()`).Scan(&passed)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = db.Close(w.t.Context())
	w.stopped(s)
	return passed
}

func (w *world) stopped(s *pgtest.Server) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx, "fast"); err != nil {
		w.t.Fatal(err)
	}
}

// After a drain the slot is past everything, also what the server writes while it stops. Nothing is lost or comes twice.
func TestDrain(t *testing.T) {
	for _, version := range pgtest.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t, pgtest.Options{Version: version})
			w := newWorld(t, s)
			r := w.start(w.config())
			r.state(Streaming)
			w.insert(1000)
			if got := w.outcome(w.ask(checkpoint.Drain, "")); !strings.HasPrefix(got, "drained") {
				t.Fatalf("outcome %q", got)
			}
			r.state(Drained)
			if state, _ := w.row(); state != "drained" || !r.Status().Ready {
				t.Errorf("row says %s, status %+v", state, r.Status())
			}
			w.insert(5) // somebody is late
			w.delivered()
			w.exec("create table between_drain_and_stop as select 1")
			w.stopped(s)
			eventually(t, "the relay sees it", func() bool { return r.Status().State == Starting })
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			if version >= "17" && !w.upgradable(s) {
				t.Error("pg_upgrade would refuse the slot")
			}

			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.reconnect()
			w.insert(5)
			w.start(w.config()).state(Streaming) // the drain is over
			w.insert(5)
			w.delivered()
			eventually(t, "the row goes on", func() bool { state, saved := w.row(); return state == "ready" && saved == w.slotPosition() })
		})
	}
}

// A stop alone leaves the commit of our own row to the slot.
func TestUpgradeWantsADrain(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{})
	w := published(t, s)
	w.stopped(s)
	if w.upgradable(s) {
		t.Error("pg_upgrade takes the slot, so a drain shows nothing")
	}
}

// A relay that lives on drains over a restart of its server, and goes on behind it as ever.
func TestDrainEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{})
	w := newWorld(t, s)
	r := w.start(w.config())
	r.state(Streaming)
	w.insert(10)
	w.outcome(w.ask(checkpoint.Drain, ""))
	w.stopped(s)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.reconnect()
	w.insert(10)
	w.delivered()
	eventually(t, "the drain is over", func() bool { state, _ := w.row(); return state == "ready" && r.Status().State == Streaming })
}

// A drain lasts over a restart of the relay, also one that is killed, until a person resumes. What the slot has confirmed
// without a row needs no proof: there is none where rows are deleted.
func TestDrainLasts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	cfg := w.config()
	r := w.start(cfg)
	r.state(Streaming)
	w.insert(10)
	w.outcome(w.ask(checkpoint.Drain, ""))
	w.exec("delete from outbox")
	eventually(t, "the slot is beyond the row", func() bool { _, saved := w.row(); return w.slotPosition() > saved })
	_, drained := w.row()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if state, saved := w.row(); state != "drained" || saved != drained {
		t.Errorf("after the stop the row says %s at %v, before it was at %v", state, saved, drained)
	}

	r = w.start(cfg)
	r.state(Drained)
	if got := w.outcome(w.ask(checkpoint.Resume, "")); got != "resumed" {
		t.Errorf("outcome %q", got)
	}
	r.state(Streaming)
	eventually(t, "the row says so", func() bool { state, saved := w.row(); return state == "ready" && saved >= w.slotPosition() })
	w.insert(10)
	w.delivered()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	w.exec("delete from outbox")
	w.exec("update walrelay.checkpoint set lsn = lsn - 100, state = 'drained'") // without a ceiling
	w.start(cfg).stops("cannot be proven")
}

// A relay that is paused publishes everything when it is to drain, and waits for events that cannot be published.
func TestDrainEndsAPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	r := w.start(w.config())
	r.state(Streaming)
	w.outcome(w.ask(checkpoint.Pause, ""))
	w.insert(10)
	w.outcome(w.ask(checkpoint.Drain, ""))
	w.delivered()
	r.state(Drained)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	w.start(w.config()).state(Drained)
}
