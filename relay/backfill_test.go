package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// backfill is init --existing=publish.
func (w *world) backfill(ctx context.Context, progress func(audit.Progress)) (RepairReport, error) {
	w.t.Helper()
	var report RepairReport
	_, err := replication.Setup(ctx, w.config().Postgres, replication.SetupOptions{
		Init: true, Existing: replication.PublishExisting,
		Fill: Backfill(w.config(), progress, zap.NewNop(), &report),
	})
	return report, err
}

// write inserts rows of random transactions until ctx ends: several keys, savepoints, rollbacks, some that take long.
func (w *world) write(ctx context.Context, seed uint64, ids *atomic.Int64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	db, err := pgx.Connect(context.Background(), w.url)
	if err != nil {
		return err
	}
	defer closeConn(db)
	for ctx.Err() == nil {
		tx, err := db.Begin(context.Background())
		if err != nil {
			return err
		}
		for range 1 + random.IntN(5) {
			if random.IntN(3) == 0 {
				if _, err := tx.Exec(context.Background(), "savepoint s"); err != nil {
					return err
				}
			}
			_, err := tx.Exec(context.Background(), "insert into outbox values ($1, 'order', $2, 'Created', '{}')", ids.Add(1), fmt.Sprint("writer", seed))
			if err != nil {
				return err
			}
		}
		pace := 20 * time.Millisecond // a rate that leaves the machine to what is tested
		if random.IntN(10) == 0 {
			pace = 60 * time.Millisecond
		}
		pause(ctx, pace)
		end := tx.Commit
		if random.IntN(5) == 0 {
			end = tx.Rollback
		}
		if err := end(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// The rows from before the first start and those that are written meanwhile: each is in Kafka once.
func TestBackfillUnderWriters(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		w.insert(2000)
		var ids atomic.Int64
		ids.Store(int64(w.next))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var writers errgroup.Group
		for seed := range uint64(4) {
			writers.Go(func() error { return w.write(ctx, seed, &ids) })
		}
		steps := map[string]bool{}
		report, err := w.backfill(t.Context(), func(p audit.Progress) { steps[p.Step] = true })
		if err != nil {
			t.Fatal(err)
		}
		if report.Published < 2000 || report.Published != report.Compared.Rows || report.Compared.Found != 0 {
			t.Errorf("report %+v", report)
		}
		if !steps["reading table public.outbox"] || !steps["publishing"] {
			t.Errorf("steps shown: %v", steps)
		}
		r := w.start(w.config())
		r.state(Streaming)
		written := ids.Load()
		eventually(t, "writers go on", func() bool { return ids.Load() > written+100 })
		stop()
		if err := writers.Wait(); err != nil {
			t.Fatal(err)
		}
		w.unordered()
		for _, record := range w.records() {
			if header(record, audit.HeaderRepaired) != "" {
				t.Fatalf("event %s counts as repaired", header(record, "id"))
			}
		}
	})
}

// unordered wants every row of the table to be in Kafka exactly once, in any order: writers without a lock have none.
func (w *world) unordered() {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), "select id::text from outbox")
	if err != nil {
		w.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	var records []kafkatest.Record
	eventually(w.t, fmt.Sprintf("%d events", len(ids)), func() bool {
		records = w.records()
		return len(records) >= len(ids)
	})
	times := map[string]int{}
	for _, r := range records {
		times[header(r, "id")]++
	}
	for _, id := range ids {
		if times[id] != 1 {
			w.t.Errorf("event %s is there %d times", id, times[id])
		}
		delete(times, id)
	}
	if len(times) > 0 {
		w.t.Errorf("events without a row: %v", times)
	}
}

// Interrupted, it begins anew with another snapshot, and does not publish again what is there.
func TestBackfillIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.insert(3000)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.backfill(ctx, func(p audit.Progress) {
		if p.Step == "publishing" && p.Done > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	w.insert(10)
	r := w.start(w.config())
	err = <-r.done
	r.done <- err
	if err == nil || !strings.Contains(err.Error(), "--existing=publish") {
		t.Errorf("a relay in between: %v", err)
	}
	report, err := w.backfill(t.Context(), nil)
	if err != nil || report.Published+report.Compared.Found != 3010 {
		t.Fatalf("report %+v, %v", report, err)
	}
	w.start(w.config()).state(Streaming)
	w.insert(10)
	w.delivered()
}

// The record has the time of publishing, since an older one would be deleted at once; the row's own is in a header.
func TestBackfillKeepsTheTimeOfTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox add created_at timestamptz")
	w.exec("insert into outbox values (0, 'order', 'k', 'Created', '{}', '2020-02-03 04:05:06.789+00'), (1, 'order', 'k', 'Created', '{}', 'infinity')")
	w.next = 2
	if _, err := w.backfill(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, record := range w.delivered() {
		want := map[string]string{"0": "2020-02-03T04:05:06.789000Z", "1": ""}[header(record, "id")]
		if got := header(record, router.HeaderTime); got != want || time.Since(record.Timestamp) > time.Minute {
			t.Errorf("event %s: time %v, header %q, want %q", header(record, "id"), record.Timestamp, got, want)
		}
	}
}
