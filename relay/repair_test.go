package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

func (w *world) repair(o RepairOptions) (RepairReport, error) {
	w.t.Helper()
	return Repair(w.t.Context(), w.config(), o, zaptest.NewLogger(w.t, zaptest.Level(zap.WarnLevel)))
}

// repaired repairs and wants an outcome and so many rows published.
func (w *world) repaired(want Outcome, published int64) RepairReport {
	w.t.Helper()
	report, err := w.repair(RepairOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if report.Outcome != want || report.Published != published {
		w.t.Errorf("got %+v, want %s and %d published", report, want, published)
	}
	return report
}

// once wants every row of the table to be in Kafka exactly once, with the rows of a key in the order of their ids.
func (w *world) once() []kafkatest.Record {
	w.t.Helper()
	var rows int
	if err := w.db.QueryRow(w.t.Context(), "select count(*) from outbox").Scan(&rows); err != nil {
		w.t.Fatal(err)
	}
	w.next = rows
	return w.delivered()
}

// Each way in which a slot goes: afterwards every committed row is in Kafka exactly once, and the relay goes on behind it.
func TestRepairAfterALostSlot(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		for name, lose := range map[string]func(w *world){
			"dropped": func(w *world) {
				w.insert(5)
				w.exec("select pg_drop_replication_slot($1)", w.slotName())
				w.insert(20)
			},
			"made anew by hand while rows went in": func(w *world) {
				w.remade(func() { w.insert(25) })
				w.insert(5)
			},
			"slot and publication dropped": func(w *world) {
				name := w.slotName()
				w.exec("select pg_drop_replication_slot($1)", name)
				w.insert(3)
				w.exec("drop publication " + name)
				w.insert(20)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := published(t, s)
				slot, before := w.slotName(), w.loadRow().Horizon
				lose(w)
				w.repaired(Repaired, int64(w.next-10))
				if after := w.loadRow(); after.Horizon.XID <= before.XID || after.Horizon.LSN != after.LSN || !after.Horizon.Time.After(before.Time) {
					t.Errorf("horizon %+v, before %+v", after.Horizon, before)
				}
				if position := w.slotPosition(); w.slotName() != slot || w.loadRow().LSN != position || w.loadRow().State != checkpoint.Ready {
					t.Errorf("row %+v, slot at %v", w.loadRow(), position)
				}
				w.insert(10)
				w.start(w.config()).state(Streaming)
				w.insert(10)
				for _, record := range w.once() {
					w.marked(record, record.Offset >= 0 && w.repairedID(header(record, "id")))
				}
			})
		}
	})
}

// repairedID tells whether an event of the tests above was published by the repair.
func (w *world) repairedID(id string) bool {
	var n int
	_, err := fmt.Sscan(id, &n)
	return err == nil && n >= 10 && n < w.next-20
}

// marked checks how a record tells that it was published by a repair.
func (w *world) marked(r kafkatest.Record, repaired bool) {
	w.t.Helper()
	if !repaired {
		if header(r, audit.HeaderRepaired) != "" || header(r, "walrelay.lsn") == "" {
			w.t.Errorf("event %s has headers %v", header(r, "id"), r.Headers)
		}
		return
	}
	at, err := time.Parse(time.RFC3339, header(r, audit.HeaderRepaired))
	if err != nil || header(r, "walrelay.lsn") != "" || at.Sub(r.Timestamp).Abs() > time.Second || time.Since(at).Abs() > time.Minute {
		w.t.Errorf("repaired event %s has time %v, headers %v", header(r, "id"), r.Timestamp, r.Headers)
	}
}

// A slot that falls behind max_slot_wal_keep_size, here since Kafka is away, is lost; the rows are still in the table.
func TestRepairAfterAnInvalidatedSlot(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}})
	w := published(t, s)
	cfg := w.config()
	cfg.Kafka.Brokers = []string{"127.0.0.1:1"}
	r := w.start(cfg)
	r.state(Streaming)
	w.insert(40)
	w.exec("create table other (x text)")
	eventually(t, "the slot is lost", func() bool {
		w.exec("insert into other select repeat('x', 1000) from generate_series(1, 20000)")
		w.exec("select pg_switch_wal()")
		w.exec("checkpoint")
		var status string
		if err := w.db.QueryRow(t.Context(), "select wal_status from pg_replication_slots").Scan(&status); err != nil {
			t.Fatal(err)
		}
		return status == "lost"
	})
	w.insert(2)
	err := <-r.done
	r.done <- err
	var setup *replication.SetupError
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), "walrelay repair") {
		t.Fatalf("got %v", err)
	}
	w.repaired(Repaired, 42)
	w.start(w.config()).state(Streaming)
	w.insert(3)
	w.once()
}

// promoted ends a server and starts a copy of it, which was its standby, as a primary on the next timeline. A standby has
// none of its slots, unless they were synchronised.
func promoted(t *testing.T, primary *pgtest.Server, slots bool) *pgtest.Server {
	t.Helper()
	if err := primary.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	dir := pgtest.TempDir(t)
	if err := primary.CopyData(dir); err != nil {
		t.Fatal(err)
	}
	if !slots {
		emptied(t, dir+"/pg_replslot")
	}
	touch(t, dir+"/standby.signal", dir)
	standby := pgtest.Start(t, pgtest.Options{Version: primary.Version(), Dir: dir})
	pgtest.Exec(t, standby.URL("postgres"), "select pg_promote()")
	return standby
}

// moveTo connects the world to another server.
func (w *world) moveTo(url string) {
	w.t.Helper()
	db, err := pgx.Connect(w.t.Context(), url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close(context.Background()) })
	w.url, w.db = url, db
}

// A repair that was interrupted keeps relays out and is begun anew: what it had published already is not published again.
func TestRepairIsResumed(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := published(t, s)
		w.exec("select pg_drop_replication_slot($1)", w.slotName())
		w.insert(3000)
		before := w.loadRowOf(replication.DefaultSlot(w.db.Config().Database))
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Repair(ctx, w.config(), RepairOptions{Progress: func(p audit.Progress) {
			if p.Step == "publishing" && p.Done > 0 {
				cancel()
			}
		}}, zap.NewNop())
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the interrupted repair: %v", err)
		}
		row := w.loadRowOf(before.Slot)
		if row.State != checkpoint.Repairing || row.LSN != before.LSN || row.Horizon != before.Horizon {
			t.Errorf("row %+v, before %+v", row, before)
		}
		r := w.start(w.config())
		err = <-r.done
		r.done <- err
		if err == nil || !strings.Contains(err.Error(), "was begun and has not ended") {
			t.Errorf("a relay in between: %v", err)
		}
		report, err := w.repair(RepairOptions{})
		if err != nil || report.Compared.Found+report.Published != report.Compared.Rows {
			t.Errorf("report %+v, %v", report, err)
		}
		w.start(w.config()).state(Streaming)
		w.insert(5)
		w.once()
	})
}

func (w *world) loadRowOf(slot string) checkpoint.Row {
	w.t.Helper()
	store := checkpoint.NewStore(checkpoint.Always(w.db.Config()))
	defer closeStore(store)
	row, ok, err := store.Load(w.t.Context(), slot)
	if err != nil || !ok {
		w.t.Fatalf("row: %v, %v", ok, err)
	}
	return row
}

// An older event behind a newer one of its key would be the key's last state: it is listed, and left out unless asked for.
func TestRepairLeavesStaleRowsOut(t *testing.T) {
	t.Parallel()
	for _, allow := range []bool{false, true} {
		t.Run(fmt.Sprintf("allow %v", allow), func(t *testing.T) {
			t.Parallel()
			w := published(t, pgtest.Shared(t, ""))
			r := w.start(w.config())
			r.state(Streaming)
			name := w.slotName()
			w.exec("begin; alter publication " + name + " drop table outbox; end")
			w.exec("insert into outbox values (10, 'order', 'k', 'Created'), (11, 'order', 'other', 'Created')")
			w.exec("begin; alter publication " + name + " add table outbox; end")
			w.exec("insert into outbox values (12, 'order', 'k', 'Changed')")
			r.stops("; 2 of ")
			// What came behind the gap is in Kafka only if the relay was fast enough to send it before it stopped.
			newer := false
			for _, record := range w.records() {
				newer = newer || header(record, "id") == "12"
			}
			if !newer {
				w.produce("k", "12")
			}

			looked, err := w.repair(RepairOptions{DryRun: true, AllowStale: allow})
			if err != nil || looked.Outcome == Proved || w.loadRow().State == checkpoint.Repairing {
				t.Errorf("dry run: %+v, %v", looked, err)
			}
			report, err := w.repair(RepairOptions{AllowStale: allow})
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]Outcome{true: Repaired, false: LeftOut}[allow]; report.Outcome != want || looked.Outcome != want {
				t.Errorf("outcome %s, foretold %s, want %s", report.Outcome, looked.Outcome, want)
			}
			if report.Published != looked.Published || report.StaleRows != looked.StaleRows {
				t.Errorf("the repair differs from the dry run: %+v, %+v", report, looked)
			}
			ids := map[string]int{}
			for _, record := range w.records() {
				ids[header(record, "id")]++
			}
			wanted := map[bool]int{false: 0, true: 1}[allow]
			if ids["10"] != wanted || ids["11"] != 1 || ids["12"] != 1 || report.StaleRows != int64(1-wanted) {
				t.Errorf("records %v, report %+v", ids, report)
			}
			if !allow && (len(report.Stale) != 1 || !strings.Contains(report.Stale[0], "public.outbox id 10 (key k, topic outbox.event.order)")) {
				t.Errorf("left out: %q", report.Stale)
			}
		})
	}
}

// produce publishes an event with a NULL payload as somebody else would.
func (w *world) produce(key, id string) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.AllowAutoTopicCreation())
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	err = client.ProduceSync(w.t.Context(), &kgo.Record{
		Topic: "outbox.event.order", Key: []byte(key), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}},
	}).FirstErr()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Rows that were deleted are past finding out, and nobody is told that all is well.
func TestRepairSaysWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("select pg_drop_replication_slot($1)", w.slotName())
	w.exec("delete from outbox")
	w.repaired(Unprovable, 0)
	w.insert(1)
	w.start(w.config()).state(Streaming)
	eventually(t, "the new event", func() bool { return len(w.records()) == 11 })
}

// A relay that was frozen before the repair wakes up behind it: its Kafka batches are refused.
func TestRepairFencesTheRelayBefore(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	var oid uint32
	if err := w.db.QueryRow(t.Context(), "select oid from pg_database where datname = current_database()").Scan(&oid); err != nil {
		t.Fatal(err)
	}
	source := lsn.SourceOf(w.loadRow().SystemID, oid, w.slotName())
	frozen := kafka.New(kafka.Config{Brokers: w.brokers, TransactionalID: TransactionalID(source, w.slotName())}, nil)
	over := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { over <- frozen.Run(ctx) }()
	send := func(id string) {
		m := router.Message{Topic: "outbox.event.order", Key: []byte("k"), Partition: -1, Time: time.Now().UnixMilli(),
			Headers: []router.Header{{Name: "id", Value: []byte(id)}}}
		eventually(t, "the frozen one takes a record", func() bool {
			status, err := frozen.Append(&m, 1)
			return err == nil && status == kafka.Appended
		})
		frozen.Send()
	}
	send("100")
	eventually(t, "and sends it", frozen.Flushed)

	w.repaired(Proved, 0)
	send("101")
	var session *kafka.SessionError
	if err := <-over; !errors.As(err, &session) || !session.Fenced() {
		t.Errorf("the frozen one: %v", err)
	}
	if n := len(w.records()); n != 11 {
		t.Errorf("%d records, want 11", n)
	}
}

// A dump carries the row along to another server, where its horizon means nothing: all rows are looked at.
func TestRepairAfterADump(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("select pg_drop_replication_slot($1)", w.slotName())
	w.insert(5)
	w.exec("update walrelay.checkpoint set system_id = '7', horizon = pg_snapshot_xmax(pg_current_snapshot())")
	report := w.repaired(Repaired, 5)
	if report.Compared.Rows != 15 {
		t.Errorf("%d rows were compared, want all 15", report.Compared.Rows)
	}
	w.start(w.config()).state(Streaming)
	w.insert(1)
	w.once()
}

// A repair without a gap proves that there is none.
func TestRepairProves(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.repaired(Proved, 0)
	w.insert(4)
	w.start(w.config()).state(Streaming)
	w.once()
}

func TestRepairRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		prepare    func(w *world)
	}{
		{"while a relay runs", "stop every walrelay run", func(w *world) { w.start(w.config()).state(Streaming) }},
		{"another Kafka cluster", "production", func(w *world) { w.exec("update walrelay.checkpoint set kafka_cluster_id = 'production'") }},
		{"a first start", "walrelay init", func(w *world) { w.exec("update walrelay.checkpoint set state = 'creating'") }},
		{"somebody else's slot", "test_decoding", func(w *world) {
			name := w.slotName()
			w.exec("select pg_drop_replication_slot($1)", name)
			w.exec("select pg_create_logical_replication_slot($1, 'test_decoding')", name)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := published(t, pgtest.Shared(t, ""))
			test.prepare(w)
			slot, position := w.slotName(), w.loadRow().LSN
			if _, err := w.repair(RepairOptions{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if w.loadRowOf(slot).LSN != position {
				t.Error("the position has changed")
			}
		})
	}
}

// emptied removes what is in a folder.
func emptied(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// touch makes an empty file that belongs to the owner of the folder.
func touch(t *testing.T, path, folder string) {
	t.Helper()
	info, err := os.Stat(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}
