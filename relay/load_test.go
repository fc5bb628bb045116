package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/lsn"
)

// loadSQL: every event also stands in the ledger, which is never touched again, whatever becomes of the outbox. The number
// of a key is taken under the lock of its row, so that it rises in commit order.
const loadSQL = `
	create table keys (key text primary key, sequence bigint not null default 0);
	insert into keys select 'key-' || n from generate_series(0, 19) n;
	create table ledger (id uuid primary key default gen_random_uuid(), topic text, key text, sequence bigint)`

// outboxOf is one outbox of a load: how a row with $1 id, $2 key and $3 sequence gets into it, and the topic of its record.
type outboxOf struct{ insert, topic string }

// load writes into outboxes at once, from several connections, until it is stopped.
type load struct {
	t       *testing.T
	cancel  context.CancelFunc
	writers sync.WaitGroup
	ids     string // name of the header with the event's id
}

// startLoad starts writers and the application's own work on the outbox: SQL that is executed again and again.
func (w *world) startLoad(outboxes []outboxOf, work ...string) *load {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &load{t: w.t, cancel: cancel, ids: "id"}
	for n := range 3 {
		l.run(ctx, w.url, func(ctx context.Context, db *pgx.Conn, rng *rand.Rand) error {
			return writeEvents(ctx, db, rng, outboxes)
		}, uint64(n))
	}
	for n, sql := range work {
		l.run(ctx, w.url, func(ctx context.Context, db *pgx.Conn, _ *rand.Rand) error {
			_, err := db.Exec(ctx, sql)
			return err
		}, uint64(n))
	}
	w.t.Cleanup(l.stop)
	return l
}

func (l *load) run(ctx context.Context, url string, do func(context.Context, *pgx.Conn, *rand.Rand) error, seed uint64) {
	l.writers.Go(func() {
		db, err := pgx.Connect(ctx, url)
		if err != nil {
			l.t.Error(err)
			return
		}
		defer closeConn(db)
		rng := rand.New(rand.NewPCG(seed, 1))
		for ctx.Err() == nil {
			// A statement under way is finished: its transaction must be in the ledger or not at all.
			if err := do(context.WithoutCancel(ctx), db, rng); err != nil && !rolledBack(err) {
				l.t.Error(err)
				return
			}
		}
	})
}

// rolledBack tells whether a transaction has failed because of DDL that came between: a deadlock, or its partition is gone.
func rolledBack(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && (failed.Code == "40P01" || failed.Code == "23514")
}

func (l *load) stop() {
	l.cancel()
	l.writers.Wait()
}

// writeEvents is one transaction: some events of some keys in some outboxes.
func writeEvents(ctx context.Context, db *pgx.Conn, rng *rand.Rand, outboxes []outboxOf) error {
	first := rng.IntN(18)
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for k := range 1 + rng.IntN(2) { // in the order in which everybody locks them
			key := fmt.Sprintf("key-%d", first+k)
			for range 1 + rng.IntN(4) {
				o := outboxes[rng.IntN(len(outboxes))]
				var id string
				var sequence int64
				err := tx.QueryRow(ctx, `with next as (update keys set sequence = sequence + 1 where key = $1 returning sequence)
					insert into ledger (topic, key, sequence) select $2, $1, sequence from next returning id, sequence`, key, o.topic).Scan(&id, &sequence)
				if err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, o.insert, id, key, sequence); err != nil {
					return fmt.Errorf("%s: %w", o.insert, err)
				}
			}
		}
		return nil
	})
}

// written waits until the load has made so many events.
func (w *world) written(n int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d events", n), func() bool {
		var count int
		if err := w.db.QueryRow(w.t.Context(), "select count(*) from ledger").Scan(&count); err != nil {
			w.t.Fatal(err)
		}
		return count >= n
	})
}

// audited ends the load and compares the ledger with the topics: nothing may be lost, there twice, or out of order.
func (w *world) audited(l *load, r *running) {
	w.t.Helper()
	l.stop()
	w.caughtUp(r)
	found, err := w.db.Query(w.t.Context(), "select id::text, topic, key, sequence from ledger order by sequence")
	if err != nil {
		w.t.Fatal(err)
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[audit.Row])
	if err != nil {
		w.t.Fatal(err)
	}
	var records []audit.Record
	for _, record := range w.records() {
		records = append(records, audit.Record{
			Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, Key: string(record.Key),
			ID: header(record, l.ids), Position: header(record, "walrelay.lsn"),
		})
		if _, err := lsn.ParseIdentity(header(record, "walrelay.lsn")); err != nil {
			w.t.Errorf("%v: %v", record, err)
		}
		if !strings.Contains(string(record.Value), "7") { // every payload has it
			w.t.Errorf("%s: value %q", record.Topic, record.Value)
		}
	}
	report := audit.Compare(rows, records)
	if report.Inserted == 0 || report.Lost.Count+report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
		w.t.Error(report)
	} else {
		w.t.Log(report)
	}
}
