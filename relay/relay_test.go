package relay

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/walrelay/walrelay/internal/faultconn"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// world is a database with an outbox, a broker, and what is needed to run relays between them.
type world struct {
	t       *testing.T
	url     string
	db      *pgx.Conn
	brokers []string
	next    int // the next event to insert
}

const outboxSQL = `create table outbox (id bigint primary key, aggregatetype text not null, aggregateid text not null,
	type text not null, payload jsonb)`

func newWorld(t *testing.T, s *pgtest.Server) *world {
	t.Helper()
	w := &world{t: t, url: s.Database(t), brokers: kafkatest.Fake(t).ListenAddrs()}
	db, err := pgx.Connect(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	w.db = db
	w.exec(outboxSQL)
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// insert commits n more events in one transaction.
func (w *world) insert(n int) {
	w.t.Helper()
	w.exec(`insert into outbox select i, 'order', 'k' || i % 7, 'Created', jsonb_build_object('n', i)
		from generate_series($1::bigint, $2::bigint) i`, w.next, w.next+n-1)
	w.next += n
}

func (w *world) config() Config {
	return Config{
		Postgres:     replication.Config{URL: w.url},
		Kafka:        kafka.Config{Brokers: w.brokers},
		SaveInterval: 20 * time.Millisecond,
	}
}

// running is a relay under way.
type running struct {
	*Relay
	t    *testing.T
	logs *observer.ObservedLogs
	stop context.CancelFunc
	done chan error
}

// said is everything that the relay has logged.
func (r *running) said() string {
	var text strings.Builder
	for _, entry := range r.logs.All() {
		fmt.Fprintln(&text, entry.Message, entry.ContextMap())
	}
	return text.String()
}

func (w *world) start(cfg Config) *running {
	w.t.Helper()
	return w.startWith(cfg, prometheus.NewRegistry())
}

// startWith is start with a registry to look into.
func (w *world) startWith(cfg Config, registry *prometheus.Registry) *running {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	observed, logs := observer.New(zap.InfoLevel)
	tee := zap.WrapCore(func(core zapcore.Core) zapcore.Core { return zapcore.NewTee(core, observed) })
	log := zaptest.NewLogger(w.t, zaptest.Level(zap.InfoLevel), zaptest.WrapOptions(tee))
	r := &running{t: w.t, logs: logs, stop: cancel, done: make(chan error, 1)}
	r.Relay = New(cfg, log, registry)
	go func() { r.done <- r.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		select {
		case <-r.done:
		case <-time.After(30 * time.Second):
			w.t.Error("the relay does not stop")
		}
	})
	return r
}

// end stops the relay in order and returns what Run returned.
func (r *running) end() error {
	r.stop()
	err := <-r.done
	r.done <- err // for the cleanup
	return err
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		pause(t.Context(), 10*time.Millisecond)
	}
}

func (r *running) state(want State) {
	r.t.Helper()
	eventually(r.t, "state "+string(want), func() bool { return r.Status().State == want })
}

// records reads all topics.
func (w *world) records() []kafkatest.Record {
	w.t.Helper()
	topics, err := kafkatest.Topics(w.t.Context(), w.brokers)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(topics) == 0 {
		return nil
	}
	records, err := kafkatest.ReadAll(w.t.Context(), w.brokers, topics...)
	if err != nil {
		w.t.Fatal(err)
	}
	return records
}

// delivered waits until all inserted events are in Kafka, and checks that each is there once and in order.
func (w *world) delivered() []kafkatest.Record {
	w.t.Helper()
	var records []kafkatest.Record
	eventually(w.t, fmt.Sprintf("%d events in Kafka", w.next), func() bool {
		records = w.records()
		return len(records) >= w.next
	})
	seen := make(map[string]bool)
	last := make(map[string]int)
	for _, r := range records {
		id := header(r, "id")
		if seen[id] {
			w.t.Errorf("event %s is there twice", id)
		}
		seen[id] = true
		var n int
		if _, err := fmt.Sscan(id, &n); err != nil {
			w.t.Fatal(err)
		}
		if before, ok := last[string(r.Key)]; ok && n < before {
			w.t.Errorf("key %s: event %d stands behind %d", r.Key, n, before)
		}
		last[string(r.Key)] = n
	}
	return records
}

func header(r kafkatest.Record, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

func (w *world) slotPosition() lsn.End {
	w.t.Helper()
	var text string
	err := w.db.QueryRow(w.t.Context(), "select confirmed_flush_lsn::text from pg_replication_slots where database = current_database()").Scan(&text)
	if err != nil {
		w.t.Fatal(err)
	}
	end, err := lsn.ParseEnd(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return end
}

func (w *world) row() (state string, end lsn.End) {
	w.t.Helper()
	var text string
	err := w.db.QueryRow(w.t.Context(), "select state, lsn::text from walrelay.checkpoint").Scan(&state, &text)
	if err != nil {
		w.t.Fatal(err)
	}
	end, err = lsn.ParseEnd(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return state, end
}

func TestRelay(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		r := w.start(w.config())
		r.state(Streaming) // the first start makes everything
		w.insert(1)
		w.insert(500)
		records := w.delivered()

		first := records[0]
		for _, r := range records {
			if header(r, "id") == "0" {
				first = r
			}
		}
		if first.Topic != "outbox.event.order" || string(first.Key) != "k0" || string(first.Value) != `{"n": 0}` {
			t.Errorf("record: topic %s, key %s, value %s", first.Topic, first.Key, first.Value)
		}
		identity, err := lsn.ParseIdentity(header(first, "walrelay.lsn"))
		if err != nil || identity.Ordinal != 1 || time.Since(time.UnixMicro(identity.Time)) > time.Minute {
			t.Errorf("identity %v, %v", identity, err)
		}
		if !first.Timestamp.Equal(time.UnixMilli(identity.Time / 1000)) {
			t.Errorf("the record's time is %v, the commit's %v", first.Timestamp, time.UnixMicro(identity.Time))
		}

		// the row comes first, then the slot; both reach the last event
		eventually(t, "slot follows the row", func() bool {
			slot := w.slotPosition() // read first: both move on
			_, saved := w.row()
			if slot > saved {
				t.Fatalf("slot %v is ahead of the row %v", slot, saved)
			}
			return slot == saved && !identity.Commit.CoveredBy(0) && identity.Commit.CoveredBy(slot)
		})
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if state, saved := w.row(); state != "clean" || w.slotPosition() != saved {
			t.Errorf("after the stop: row %s at %v, slot at %v", state, saved, w.slotPosition())
		}

		// what came in between is delivered by the next one, and nothing twice
		w.insert(20)
		w.start(w.config())
		w.delivered()
	})
}

func TestRelayReconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	var dialer faultconn.Dialer
	cfg := w.config()
	cfg.Postgres.Dial = dialer.DialContext
	r := w.start(cfg)
	r.state(Streaming)
	for range 10 {
		w.insert(100)
		dialer.Cut()
		w.insert(3)
	}
	w.delivered()
}

// A transaction that is cut in the middle goes on at its next row.
func TestRelayReconnectsInsideATransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	var dialer faultconn.Dialer
	cfg := w.config()
	cfg.Postgres.Dial = dialer.DialContext
	r := w.start(cfg)
	r.state(Streaming)
	w.next = 0
	go func() {
		for r.Status().InFlight == 0 && r.progress.receivedEnd.Load() == 0 && t.Context().Err() == nil {
		}
		dialer.Cut()
	}()
	w.insert(20_000)
	eventually(t, "the connection was cut", func() bool { return dialer.Dials() > 4 })
	w.delivered()
}

func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	first := w.start(w.config())
	first.state(Streaming)
	second := w.start(w.config())
	second.state(Standby)
	if !second.Status().Ready {
		t.Error("a waiting standby must be ready, or a rolling deploy waits for ever")
	}
	w.insert(10)
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	second.state(Streaming)
	w.insert(10)
	w.delivered()
}

// A relay that loses its slot to the standby, with a position that it has not saved, becomes the standby.
func TestTakenOverRelayStandsBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	direct, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultconn.NewProxy(direct.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	cfg := w.config()
	cfg.Postgres.URL = strings.Replace(w.url, direct.Host, proxy.Address(), 1)
	cfg.Postgres.Instance, cfg.SaveInterval = "first", 10*time.Second
	first := w.start(cfg)
	first.state(Streaming)
	_, begin := w.row()
	cfg = w.config()
	cfg.Postgres.Instance = "second"
	second := w.start(cfg)
	second.state(Standby)
	w.insert(10)
	eventually(t, "a save", func() bool { _, saved := w.row(); return saved > begin })
	w.insert(10)
	eventually(t, "acknowledged and not saved", func() bool { // for up to ten seconds
		records := w.records()
		if len(records) != 20 || first.Status().InFlight != 0 {
			return false
		}
		last, err := lsn.ParseIdentity(header(records[len(records)-1], "walrelay.lsn"))
		if err != nil {
			t.Fatal(err)
		}
		_, saved := w.row()
		return !last.Commit.CoveredBy(saved)
	})
	proxy.Refuse(true)
	proxy.Cut()
	second.state(Streaming)
	w.insert(10)
	w.delivered()
	refusals := first.metrics.errors.WithLabelValues("checkpoint")
	before := testutil.ToFloat64(refusals)
	proxy.Refuse(false)
	eventually(t, "the row refuses the first", func() bool { return testutil.ToFloat64(refusals) > before })
	first.state(Standby)

	if err := second.end(); err != nil {
		t.Fatal(err)
	}
	first.state(Streaming)
	w.insert(10)
	w.delivered()
	if err := first.end(); err != nil {
		t.Error(err)
	}
}

func TestRelayStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(w *world)
		want    string // in the error
	}{
		{"table is missing", func(w *world) { w.exec("drop table outbox") }, "does not exist"},
		{"columns are missing", func(w *world) { w.exec("alter table outbox drop column payload") }, "payload"},
		{"table is unlogged", func(w *world) { w.exec("alter table outbox set unlogged") }, "SET LOGGED"},
		{"outbox has rows already", func(w *world) { w.insert(1) }, "--existing=skip"},
		{"slot was dropped", func(w *world) {
			w.runOnce()
			w.exec("select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()")
		}, "slot"},
		{"publication was dropped", func(w *world) {
			w.runOnce()
			w.exec("drop publication " + w.slotName())
		}, "publication"},
		{"row was deleted", func(w *world) {
			w.runOnce()
			w.exec("delete from walrelay.checkpoint")
		}, "checkpoint"},
		{"row belongs to another server", func(w *world) {
			w.runOnce()
			w.exec("update walrelay.checkpoint set system_id = '1'")
		}, "system 1"},
		{"row lies beyond the log", func(w *world) {
			w.runOnce()
			w.exec("update walrelay.checkpoint set lsn = 'FFF/0'")
		}, "beyond"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pgtest.Shared(t, ""))
			c.prepare(w)
			r := w.start(w.config())
			select {
			case err := <-r.done:
				r.done <- err
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %q, want one line with %q", err, c.want)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("the relay goes on: %+v", r.Status())
			}
		})
	}
}

// A relay of another environment must not take the events away.
func TestRelayRefusesAnotherCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	w.exec("update walrelay.checkpoint set kafka_cluster_id = 'production'")
	r := w.start(w.config())
	w.insert(1)
	err := <-r.done
	r.done <- err
	var stop *StopError
	if !errors.As(err, &stop) || !strings.Contains(err.Error(), "production") {
		t.Errorf("got %v", err)
	}
	if records := w.records(); len(records) != 1 {
		t.Errorf("%d records in the wrong cluster", len(records)-1)
	}
}

// runOnce is a whole life of a relay that delivers one event.
func (w *world) runOnce() {
	w.t.Helper()
	r := w.start(w.config())
	r.state(Streaming)
	w.insert(1)
	w.delivered()
	if err := r.end(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) slotName() string {
	w.t.Helper()
	var name string
	if err := w.db.QueryRow(w.t.Context(), "select slot_name from pg_replication_slots where database = current_database()").Scan(&name); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// The row cannot be saved, so the next relay is sent everything again, as after a kill. Nothing may come twice.
func TestUncleanStopRepeatsNothing(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		w.runOnce()
		for range 3 {
			r := w.start(w.config())
			r.state(Streaming)
			tx, err := w.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "select from walrelay.checkpoint for update"); err != nil {
				t.Fatal(err)
			}
			w.insertOn(w.url, 400)
			w.delivered()
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		last := w.start(w.config())
		w.insert(50)
		w.delivered()
		eventually(t, "everything is saved", func() bool { _, saved := w.row(); return saved == w.slotPosition() && last.Status().InFlight == 0 })
		w.delivered()
		if n := testutil.ToFloat64(last.metrics.suppressed.WithLabelValues("public.outbox")); n < 400 {
			t.Errorf("%v events suppressed, so this was no unclean stop", n)
		}
	})
}

// insertOn is insert over a connection of its own.
func (w *world) insertOn(url string, n int) {
	w.t.Helper()
	db, err := pgx.Connect(w.t.Context(), url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer closeConn(db)
	other := *w
	other.db = db
	other.insert(n)
	w.next = other.next
}

// As a synchronous standby the relay would hold up every commit of the database, with Kafka behind it.
func TestRelayIsNoSynchronousStandby(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{})
	w := newWorld(t, s)
	set := func(names string) {
		w.exec("set synchronous_commit = local")
		w.exec("alter system set synchronous_standby_names = '" + names + "'")
		w.exec("select pg_reload_conf()")
	}
	set("*")
	r := w.start(w.config())
	err := <-r.done
	r.done <- err
	if err == nil || !strings.Contains(err.Error(), "synchronous standby") {
		t.Fatalf("at the start: %v", err)
	}

	set("")
	r = w.start(w.config())
	r.state(Streaming)
	set("FIRST 1 (walrelay, other)")
	select {
	case err := <-r.done:
		r.done <- err
		if err == nil || !strings.Contains(err.Error(), "synchronous standby") {
			t.Errorf("while running: %v", err)
		}
	case <-time.After(3 * monitorInterval):
		t.Fatal("the relay goes on")
	}
	set("")
	w.insert(1) // commits are not held up
}

// Behind events that the run before has published the position is saved too, though nothing new is acknowledged.
func TestSuppressedEventsAreSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	r := w.start(w.config())
	r.state(Streaming)
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from walrelay.checkpoint for update"); err != nil {
		t.Fatal(err)
	}
	w.insertOn(w.url, 100)
	w.delivered()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, before := w.row()
	w.start(w.config()) // and no further event
	eventually(t, "the row moves on", func() bool { _, saved := w.row(); return saved > before && saved == w.slotPosition() })
	if n := len(w.records()); n != w.next {
		t.Errorf("%d records of %d events", n, w.next)
	}
}
