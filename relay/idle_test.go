package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/walrelay/walrelay/internal/faultconn"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// Kafka is away for longer than any wal_sender_timeout. The connection lives, because the relay goes on talking, whether the
// timeout of its own session or the server's is the short one; and then everything arrives.
func TestKafkaIsAway(t *testing.T) {
	t.Parallel()
	const short = 4 * time.Second
	server := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_sender_timeout": fmt.Sprint(short.Milliseconds())}})
	for name, ours := range map[string]time.Duration{"the server's is short": 0, "ours is short": short} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, server)
			var wire faultconn.Dialer
			wire.Refuse(true)
			cfg := w.config()
			cfg.Kafka.Dial, cfg.Postgres.WALSenderTimeout = wire.DialContext, ours
			r := w.start(cfg)
			r.state(Streaming)
			w.insert(20_000)
			eventually(t, "the reason shows", func() bool { return strings.Contains(r.Status().Reason, "unreachable") })
			pause(t.Context(), short+2*time.Second)
			if status := r.Status(); status.State != Streaming || status.Ready {
				t.Errorf("status %+v, want streaming and not ready", status)
			}
			slot := w.slotPosition() // read first: both move on
			if _, saved := w.row(); slot > saved {
				t.Error("confirmed without an acknowledgement")
			}
			wire.Refuse(false)
			w.delivered()
			if n := testutil.ToFloat64(r.metrics.reconnects); n != 0 {
				t.Errorf("%v reconnects", n)
			}
		})
	}
}

// A server without a timeout (0) would let a dead host keep the slot for many minutes. The session's own frees it.
func TestDeadHostLosesTheSlot(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_sender_timeout": "0"}})
	w := newWorld(t, server)
	var wire faultconn.Dialer
	cfg := w.config()
	cfg.Postgres.Dial, cfg.Postgres.WALSenderTimeout = wire.DialContext, time.Second
	w.start(cfg).state(Streaming)
	began := time.Now()
	wire.Stall() // as when the host is lost: nothing is closed
	t.Cleanup(wire.Release)
	eventually(t, "the slot is free", func() bool {
		var free bool
		if err := w.db.QueryRow(t.Context(), "select active_pid is null from pg_replication_slots").Scan(&free); err != nil {
			t.Fatal(err)
		}
		return free
	})
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
}

// On a busy server an idle outbox keeps no log back, with the traffic in its own database or in another one: here the slot
// would be lost otherwise. It costs a row now and then, and no table of heartbeats.
func TestIdleOutboxKeepsNoLog(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_slot_wal_keep_size": "64MB", "max_wal_size": "64MB"}})
	w := newWorld(t, server)
	other := server.Database(t)
	r := w.start(w.config())
	r.state(Streaming)
	const lead = 8 << 20 // an eighth of what the slot may keep
	for _, url := range []string{w.url, other} {
		var unconfirmed, retained int64
		for range 12 {
			pgtest.Exec(t, url, "create table if not exists others (t text)",
				"insert into others select repeat(md5(i::text), 30) from generate_series(1, 10000) i", "checkpoint") // about 10 MB
			eventually(t, "the slot follows", func() bool {
				err := w.db.QueryRow(t.Context(), `select pg_current_wal_lsn() - confirmed_flush_lsn, pg_current_wal_lsn() - restart_lsn
					from pg_replication_slots where database = current_database() and wal_status <> 'lost'`).Scan(&unconfirmed, &retained)
				if err != nil {
					t.Fatal(err)
				}
				return unconfirmed < lead+1<<20
			})
		}
		if retained > 48<<20 {
			t.Errorf("the slot keeps %d MiB", retained>>20)
		}
	}
	if saves := testutil.ToFloat64(r.metrics.saves); saves > 40 {
		t.Errorf("%v rows for 240 MB of log", saves)
	}
	w.insert(1)
	w.delivered()
}
