package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
)

// unsaved lets f happen while the checkpoint row cannot be saved, and stops the relay: the next one is sent it all again.
func (w *world) unsaved(r *running, f func()) {
	w.t.Helper()
	tx, err := w.db.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(w.t.Context(), "select from walrelay.checkpoint for update"); err != nil {
		w.t.Fatal(err)
	}
	f()
	if err := r.end(); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Rollback(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// Two databases have the same ids in one topic, and an application inserts an id again to publish it again. Only the event
// itself counts as found.
func TestIDsAreNoIdentity(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t, "")
	one, two := newWorld(t, s), newWorld(t, s)
	two.brokers = one.brokers
	for _, w := range []*world{one, two} {
		r := w.start(w.config())
		r.state(Streaming)
		w.insert(1)
		eventually(t, "a first save", func() bool { return !w.loadRow().CommitTime.IsZero() })
		w.unsaved(r, func() {
			pgtest.Exec(t, w.url, "insert into outbox select i, 'order', 'k', 'Created', '{}' from generate_series(10, 19) i",
				"delete from outbox where id >= 10", "insert into outbox select i, 'order', 'k', 'Created', '{}' from generate_series(10, 19) i")
			eventually(t, "all are acknowledged", func() bool { return r.Status().InFlight == 0 && r.progress.confirmed.Load() > r.progress.saved.Load() })
		})
	}
	for _, w := range []*world{one, two} {
		w.start(w.config()).state(Streaming)
		w.exec("insert into outbox values (20, 'order', 'k', 'Created', '{}')")
	}
	eventually(t, "the last ones", func() bool {
		last := 0
		for _, record := range one.records() {
			if header(record, "id") == "20" {
				last++
			}
		}
		return last == 2
	})
	found := map[string]int{}
	for _, record := range one.records() {
		found[header(record, "id")]++
	}
	for id, n := range found {
		if want := map[bool]int{true: 4, false: 2}[len(id) == 2 && id[0] == '1']; n != want {
			t.Errorf("event %s is there %d times, want %d", id, n, want)
		}
	}
	if len(found) != 12 {
		t.Errorf("ids %v", found)
	}
}

// The name of a slot is unique in the whole cluster: a relay of another database says so, and does not stand by for ever.
func TestSlotOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t, "")
	one, two := newWorld(t, s), newWorld(t, s)
	r := one.start(one.config())
	r.state(Streaming)
	cfg := two.config()
	cfg.Postgres.Slot = one.slotName()
	for _, used := range []bool{true, false} {
		other := two.start(cfg)
		eventually(t, "it stops", func() bool { return other.Status().State == Stopped })
		if reason := other.Status().Reason; !strings.Contains(reason, "belongs to the database") || !strings.Contains(reason, "postgres.slot") {
			t.Errorf("the slot in use: %v: %q", used, reason)
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
}

// leakyDialer gives connections that end for us and not for the server, as when a router between them forgets them.
type leakyDialer struct {
	mu    sync.Mutex
	conns []*leakyConn
}

type leakyConn struct {
	net.Conn
	ended atomic.Bool
}

func (d *leakyDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	inner, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &leakyConn{Conn: inner}
	d.conns = append(d.conns, c)
	return c, nil
}

// leak ends all connections for us.
func (d *leakyDialer) leak(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.ended.Store(true)
		_ = c.SetDeadline(time.Unix(1, 0))
		t.Cleanup(func() { _ = c.Conn.Close() })
	}
	d.conns = nil
}

var errLeaked = errors.New("connection reset")

func (c *leakyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.ended.Load() {
		return 0, errLeaked
	}
	return n, err
}

func (c *leakyConn) Write(b []byte) (int, error) {
	if c.ended.Load() {
		return 0, errLeaked
	}
	return c.Conn.Write(b)
}

func (c *leakyConn) Close() error {
	if c.ended.Load() {
		return nil
	}
	return c.Conn.Close()
}

// Postgres has not noticed that our connection is gone, and keeps the slot for it. We end it and go on, long before its
// wal_sender_timeout.
func TestOwnDeadConnectionIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	var dialer leakyDialer
	cfg := w.config()
	cfg.Postgres.Dial, cfg.Postgres.Instance = dialer.DialContext, strings.ToLower(rand.Text()[:8])
	r := w.start(cfg)
	r.state(Streaming)
	w.insert(10)
	w.delivered()
	began := time.Now()
	dialer.leak(t)
	w.insert(10)
	w.delivered()
	if took := time.Since(began); took > replication.DefaultWALSenderTimeout/2 {
		t.Errorf("it took %v", took)
	}
}

// A database that is read-only, as with a full disk on a managed service, takes no row. After a while the slot moves without
// it, so that the disk can drain, and what was confirmed that way needs no proof once the row can be written.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	r := w.start(w.config())
	r.state(Streaming)
	w.insert(5)
	eventually(t, "a save", func() bool { return !w.loadRow().CommitTime.IsZero() })
	readOnly := func(on string) {
		w.exec("alter database " + w.db.Config().Database + " set default_transaction_read_only = " + on)
		w.exec("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'")
	}
	readOnly("on")
	_, before := w.row()
	w.insert(5)
	w.delivered()
	deadline := time.Now().Add(2 * unsavedLimit)
	for w.slotPosition() <= before {
		if time.Now().After(deadline) {
			t.Fatal("the slot waits for a row that cannot be written")
		}
		pause(t.Context(), 100*time.Millisecond)
	}
	if _, saved := w.row(); saved != before {
		t.Errorf("the row went from %v to %v", before, saved)
	}
	if err := r.end(); err != nil { // and the next one finds the slot beyond the row
		t.Fatal(err)
	}
	readOnly("off")
	w.start(w.config()).state(Streaming)
	w.insert(5)
	w.delivered()
}

// What Kafka says about its memory of us begins a new session by itself, and nothing comes twice.
func TestSessionReset(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerIDMapping} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pgtest.Shared(t, ""))
			cluster := kafkatest.Fake(t)
			w.brokers = cluster.ListenAddrs()
			r := w.start(w.config())
			r.state(Streaming)
			w.insert(100)
			w.delivered()
			fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: 2})
			for range 5 {
				w.insert(100)
			}
			eventually(t, "both sessions are over", func() bool { return fault.Hits() == 2 })
			w.insert(100)
			w.delivered()
			r.state(Streaming)
		})
	}
}

// A role that is locked out for a while, as in a failover or with a rotated password, is no reason to end once it worked.
func TestLockedOutForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	role := "relay_" + strings.ToLower(rand.Text()[:12])
	w.exec("create role " + role + " superuser login")
	t.Cleanup(func() { pgtest.Exec(t, w.url, "drop owned by "+role, "drop role "+role) })
	cfg := w.config()
	cfg.Postgres.URL = strings.Replace(w.url, "postgres://postgres@", "postgres://"+role+"@", 1)
	r := w.start(cfg)
	r.state(Streaming)
	w.exec("alter role " + role + " nologin")
	w.exec("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1", role)
	eventually(t, "it says why it waits", func() bool { return strings.Contains(r.Status().Reason, "not permitted to log in") })
	w.insert(5)
	w.exec("alter role " + role + " login")
	w.delivered()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	w.exec("alter role " + role + " nologin")
	first := w.start(cfg)
	eventually(t, "at the first start it is final", func() bool { return first.Status().State == Stopped })
}

// Rows of many MB are read over and not kept: they become dead letters by their identity, and memory stays small.
func TestHugeRowsInLittleMemory(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t, ""))
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	r := w.start(cfg)
	r.state(Streaming)
	before := heap()
	w.exec("alter table outbox alter payload type text")
	for id := range 3 {
		w.exec("insert into outbox values ($1, 'order', 'k', 't', repeat('x', 100000000))", 100+id)
	}
	most := before
	eventually(t, "three dead letters", func() bool {
		most = max(most, heap())
		return len(w.records()) == 3
	})
	w.exec("insert into outbox values (200, 'order', 'k', 't', 'x')")
	eventually(t, "it goes on", func() bool { return len(w.records()) == 4 })
	if grown := (most - before) >> 20; grown > 40 {
		t.Errorf("the heap has grown by %d MiB for rows of 100 MB", grown)
	}
	for _, record := range w.records() {
		if record.Topic == "dead" && (record.Value != nil || !strings.Contains(header(record, headerError), "max_event_bytes")) {
			t.Errorf("dead letter: %d bytes, headers %v", len(record.Value), record.Headers)
		}
	}
}

// heap is what is alive.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Another mapping than that of the run before is said, once.
func TestChangedMappingIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.runOnce()
	cfg := w.config()
	const warning = "the mapping is not that of the run before"
	for i, said := range []bool{false, true, false} {
		if i == 1 {
			cfg.DeadLetterTopic = "dead"
		}
		r := w.start(cfg)
		r.state(Streaming)
		w.insert(1)
		w.delivered()
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(r.said(), warning); got != said {
			t.Errorf("run %d: said %v, want %v", i, got, said)
		}
	}
}

// With kafka.resume off nothing is looked up: there are no markers, and what is uncertain comes again.
func TestResumeOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	cfg := w.config()
	cfg.Kafka.ResumePolicy = kafka.ResumeOff
	r := w.start(cfg)
	r.state(Streaming)
	w.insert(1)
	eventually(t, "a first save", func() bool { return !w.loadRow().CommitTime.IsZero() })
	w.unsaved(r, func() {
		w.insertOn(w.url, 10)
		w.delivered()
	})
	w.start(cfg).state(Streaming)
	eventually(t, "they come again", func() bool { return len(w.records()) == 21 })
	log, err := kafkatest.Read(t.Context(), w.brokers, "outbox.event.order")
	if err != nil || len(log.Controls) != 0 {
		t.Errorf("%d markers, %v", len(log.Controls), err)
	}
}
