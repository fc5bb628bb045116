package relay

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// stops waits until the relay stops by itself, and checks that its one line has the parts.
func (r *running) stops(parts ...string) {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		var stop *StopError
		if !errors.As(err, &stop) {
			r.t.Fatalf("got %v, want a StopError", err)
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
				r.t.Errorf("got %q, want one line with %q", err, part)
			}
		}
	case <-time.After(30 * time.Second):
		r.t.Fatalf("the relay goes on: %+v", r.Status())
	}
}

// published is a world in which some events were published and the relay has stopped.
func published(t *testing.T, s *pgtest.Server) *world {
	t.Helper()
	w := newWorld(t, s)
	r := w.start(w.config())
	r.state(Streaming)
	w.insert(10)
	w.delivered()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	return w
}

// skipped moves the slot as somebody does who wants to get rid of retained log.
func (w *world) skipped() {
	w.t.Helper()
	w.exec("select pg_replication_slot_advance(slot_name, pg_current_wal_insert_lsn()) from pg_replication_slots where database = current_database()")
}

// remade drops the slot, lets something happen, and makes it again.
func (w *world) remade(between func()) {
	w.t.Helper()
	name := w.slotName()
	w.exec("select pg_drop_replication_slot($1)", name)
	between()
	w.exec("select pg_create_logical_replication_slot($1, 'pgoutput')", name)
}

// A slot that somebody moved is fine when nothing was skipped: rows that are in Kafka, and rows that will come.
func TestMovedSlotIsAdopted(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		for name, move := range map[string]func(w *world){
			"advanced":            func(w *world) { w.skipped() },
			"made anew":           func(w *world) { w.remade(func() {}) },
			"advanced, then rows": func(w *world) { w.skipped(); w.insert(30) },
			"row restored": func(w *world) { // as after a crash with synchronous_commit=off
				w.exec("update walrelay.checkpoint set lsn = lsn - 100")
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := published(t, s)
				before := w.slotPosition()
				move(w)
				r := w.start(w.config())
				r.state(Streaming)
				w.insert(5)
				w.delivered()
				eventually(t, "the row goes on", func() bool { _, saved := w.row(); return saved > before && r.Status().InFlight == 0 })
			})
		}
	})
}

// Rows that the slot skipped are neither in Kafka nor to come: that is a gap, and stays one.
func TestSkippedRowsStopTheRelay(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		for name, lose := range map[string]func(w *world){
			"advanced":  func(w *world) { w.insert(3); w.skipped() },
			"made anew": func(w *world) { w.remade(func() { w.insert(3) }) },
			"in a savepoint of a long transaction": func(w *world) {
				tx, err := w.db.Begin(w.t.Context())
				if err != nil {
					w.t.Fatal(err)
				}
				if _, err := tx.Exec(w.t.Context(), "insert into outbox select i, 'order', 'k', 'Created' from generate_series(10, 11) i; savepoint s"); err != nil {
					w.t.Fatal(err)
				}
				if _, err := tx.Exec(w.t.Context(), "insert into outbox values (12, 'order', 'k', 'Created')"); err != nil {
					w.t.Fatal(err)
				}
				if err := tx.Commit(w.t.Context()); err != nil {
					w.t.Fatal(err)
				}
				w.next += 3
				w.skipped()
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := published(t, s)
				lose(w)
				w.insert(2) // these will come
				for range 2 {
					r := w.start(w.config())
					r.stops("; 3 of ", "public.outbox id 1", ", topic outbox.event.order", "known to be in Kafka only up to", "walrelay repair")
				}
				if n := len(w.records()); n != 10 {
					t.Errorf("%d records, want those from before", n)
				}
			})
		}
	})
}

// Rows that were inserted while the table was out of the publication are found out when that is over, and before the
// horizon passes them.
func TestChangedPublication(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		t.Run("table made anew while stopped", func(t *testing.T) {
			t.Parallel()
			w := published(t, s)
			w.exec("drop table outbox")
			w.exec(outboxSQL)
			w.insert(2)
			w.exec("alter publication " + w.slotName() + " add table outbox")
			w.start(w.config()).stops("publication", "; 2 of ", "walrelay repair")
		})
	})
}

func (w *world) fingerprint() string {
	w.t.Helper()
	var text string
	if err := w.db.QueryRow(w.t.Context(), "select publication from walrelay.checkpoint").Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	return text
}

// A failover whose slot is newer than the row is explained by the timeline, and asks for no proof.
func TestFailoverExplainsTheSlot(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Options{})
	w := published(t, primary)
	w.exec("update walrelay.checkpoint set lsn = lsn - 1000, horizon = null") // as the standby had it
	w.exec("delete from outbox")                                              // so that a proof would fail
	standby := promoted(t, primary, true)
	w.moveTo(strings.Replace(w.url, fmt.Sprint(primary.Port()), fmt.Sprint(standby.Port()), 1))
	w.start(w.config()).state(Streaming)
	w.insert(3)
	eventually(t, "new events", func() bool { return len(w.records()) == 13 && w.loadRow().Timeline == 2 })
}

// A row of a timeline that this server never had belongs to another history.
func TestForeignTimeline(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("update walrelay.checkpoint set timeline = 7")
	w.start(w.config()).stops("timeline 7", "walrelay repair")
}

// Where rows are deleted in their own transaction nothing can be proven; then it must not be adopted.
func TestNothingIsProvenFromAnEmptyTable(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("delete from outbox")
	w.skipped()
	w.start(w.config()).stops("cannot be proven", "walrelay repair")
}

// A row that was updated lately looks young, and its record is old: it is looked for there before it counts as missing.
func TestProofLooksFurtherBack(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("update walrelay.checkpoint set horizon_time = now() + interval '1 hour'") // later than every record
	w.exec("update outbox set type = type where id = 1")
	w.skipped()
	w.start(w.config()).state(Streaming)
	w.insert(1)
	w.delivered()
}

// Another Kafka has none of the events, which proves nothing.
func TestProofWantsTheRightKafka(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("update walrelay.checkpoint set kafka_cluster_id = 'production'")
	w.skipped()
	w.start(w.config()).stops("production", "kafka.brokers")
}

// While a slot that was moved is examined, the connection must live, and Kafka may be away for a while.
func TestProofWaitsForKafka(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.skipped()
	cfg := w.config()
	cfg.Kafka.Brokers = []string{"127.0.0.1:1"}
	cfg.Kafka.DialTimeout = 100 * time.Millisecond
	r := w.start(cfg)
	eventually(t, "it says why it waits", func() bool { return strings.Contains(r.Status().Reason, "127.0.0.1:1") })
	if status := r.Status(); status.State != Starting || status.Ready {
		t.Errorf("status %+v", status)
	}
}

func TestLastRecord(t *testing.T) {
	t.Parallel()
	for insert, want := range map[lsn.End]lsn.End{
		0x4000028: 0x4000000, // behind the long header of a segment's first page
		0x4002018: 0x4002000, // behind the short one of another
		0x4002060: 0x4002060,
		0x4001ff8: 0x4001ff8,
	} {
		if got := lastRecord(insert); got != want {
			t.Errorf("%v: %v, want %v", insert, got, want)
		}
	}
}

// The horizon follows the saved position, never overtakes it, and waits for long transactions.
func TestHorizonFollowsThePosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	r := w.start(w.config())
	r.state(Streaming)
	long, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var running uint64
	if err := long.QueryRow(t.Context(), "select pg_current_xact_id()::text::bigint").Scan(&running); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w.insertOn(w.url, 1)
		w.delivered()
	}
	if xid := w.horizon(); xid > running {
		t.Errorf("horizon %d is beyond the running transaction %d", xid, running)
	}
	if err := long.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the horizon passes what has ended", func() bool {
		w.insert(1)
		return w.horizon() > running
	})
	row := w.loadRow()
	if row.Horizon.LSN > row.LSN || row.Horizon.Time.IsZero() || row.Horizon.Time.After(row.SavedAt) {
		t.Errorf("row %+v", row)
	}
}

func (w *world) horizon() uint64 { return w.loadRow().Horizon.XID }

func (w *world) loadRow() checkpoint.Row {
	w.t.Helper()
	store := checkpoint.NewStore(checkpoint.Always(w.db.Config()))
	defer closeStore(store)
	row, ok, err := store.Load(w.t.Context(), w.slotName())
	if err != nil || !ok {
		w.t.Fatalf("row: %v, %v", ok, err)
	}
	return row
}

// The role of a relay needs no right on the outbox until there is a doubt; then it says what it needs.
func TestProofWithoutTheRightToRead(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	role := "relay_" + strings.ToLower(rand.Text()[:12])
	w.exec("create role " + role + " login replication")
	t.Cleanup(func() { pgtest.Exec(t, w.url, "drop owned by "+role, "drop role "+role) })
	w.exec("grant usage on schema walrelay to " + role)
	w.exec("grant select, update on all tables in schema walrelay to " + role)
	cfg := w.config()
	cfg.Postgres.URL = strings.Replace(w.url, "postgres://postgres@", "postgres://"+role+"@", 1)
	r := w.start(cfg)
	r.state(Streaming)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	w.skipped()
	w.start(cfg).stops("permission denied for table outbox", "GRANT SELECT ON", "walrelay repair")
}
