package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
)

// workloadSQL: the outbox carries the oracle's sequence number in a column that the relay ignores. The number of a key is
// taken under the lock of its row, so that it rises in commit order.
const workloadSQL = `
	CREATE TABLE keys (key text PRIMARY KEY, aggregate text NOT NULL, sequence bigint NOT NULL DEFAULT 0);
	INSERT INTO keys SELECT 'key-' || n, (ARRAY['order', 'customer', 'stock'])[1 + n % 3] FROM generate_series(0, 59) n;
	CREATE TABLE outbox (
		id            uuid   PRIMARY KEY DEFAULT gen_random_uuid(),
		aggregatetype text   NOT NULL,
		aggregateid   text   NOT NULL,
		type          text   NOT NULL,
		payload       jsonb,
		sequence      bigint NOT NULL
	)`

const (
	keys    = 60
	writers = 4
	// pause is between two transactions of a writer.
	pause = 10 * time.Millisecond
	// largest is the number of rows that one key gets at most in one transaction.
	largest = 300
)

var topics = []string{"outbox.event.customer", "outbox.event.order", "outbox.event.stock"}

// workload is writers that write at once until they are told to stop.
type workload struct {
	stop   context.CancelFunc
	ended  sync.WaitGroup
	mu     sync.Mutex
	counts map[string]int // transactions by kind
}

func startWorkload(t *testing.T, url string, seed uint64) *workload {
	ctx, cancel := context.WithCancel(t.Context())
	w := &workload{stop: cancel, counts: map[string]int{}}
	for n := range writers {
		w.ended.Go(func() { w.write(ctx, url, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	t.Cleanup(w.finish)
	return w
}

// finish ends the writers and waits for them.
func (w *workload) finish() {
	w.stop()
	w.ended.Wait()
}

// write writes one transaction after the other. Postgres is stopped and killed on the way; then it connects again. A
// commit whose answer is lost is no problem: the table will tell.
func (w *workload) write(ctx context.Context, url string, rng *rand.Rand) {
	clock := time.NewTicker(pause)
	defer clock.Stop()
	var conn *pgx.Conn
	defer func() { disconnect(conn) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(ctx, url); err != nil {
				conn = nil
				continue
			}
		}
		kind, err := transact(context.WithoutCancel(ctx), conn, rng)
		if err != nil {
			kind = "broken off"
			disconnect(conn)
			conn = nil
		}
		w.mu.Lock()
		w.counts[kind]++
		w.mu.Unlock()
	}
}

func disconnect(conn *pgx.Conn) {
	if conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the server may be gone
	}
}

var (
	errRollback = errors.New("rolled back on purpose")
	errUndone   = errors.New("undone on purpose, the transaction goes on")
)

// transact writes one transaction of a random kind.
func transact(ctx context.Context, conn *pgx.Conn, rng *rand.Rand) (kind string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	some := chooseKeys(rng)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		switch dice := rng.IntN(100); {
		case dice < 60:
			kind = "one row"
			return insert(ctx, tx, some[0], 1)
		case dice < 80:
			kind = "several keys"
			return insertAll(ctx, tx, some, 1+rng.IntN(3))
		case dice < 81:
			kind = "many rows"
			return insertAll(ctx, tx, some, 1+rng.IntN(largest))
		case dice < 91:
			kind = "rollback"
			return errors.Join(insertAll(ctx, tx, some, 1+rng.IntN(3)), errRollback)
		default:
			kind = "savepoint"
			return insertAroundSavepoint(ctx, tx, some)
		}
	})
	if kind == "rollback" && errors.Is(err, errRollback) && !conn.IsClosed() {
		err = nil
	}
	return kind, err
}

// chooseKeys are 1 to 5 keys in the order in which everybody locks them.
func chooseKeys(rng *rand.Rand) []string {
	var chosen []string
	for _, n := range rng.Perm(keys)[:1+rng.IntN(5)] {
		chosen = append(chosen, fmt.Sprint("key-", n))
	}
	slices.Sort(chosen)
	return chosen
}

func insertAll(ctx context.Context, tx pgx.Tx, some []string, n int) error {
	for _, key := range some {
		if err := insert(ctx, tx, key, n); err != nil {
			return err
		}
	}
	return nil
}

// insert writes the next n events of a key.
func insert(ctx context.Context, tx pgx.Tx, key string, n int) error {
	_, err := tx.Exec(ctx, `
		WITH next AS (UPDATE keys SET sequence = sequence + $2 WHERE key = $1 RETURNING key, aggregate, sequence - $2 AS before)
		INSERT INTO outbox (aggregatetype, aggregateid, type, payload, sequence)
		SELECT aggregate, key, 'Changed', jsonb_build_object('sequence', before + n), before + n
		FROM next, generate_series(1, $2::bigint) n ORDER BY n`, key, n)
	return err
}

// insertAroundSavepoint undoes one part of the transaction and keeps another.
func insertAroundSavepoint(ctx context.Context, tx pgx.Tx, some []string) error {
	if err := insert(ctx, tx, some[0], 1); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
		return errors.Join(insertAll(ctx, nested, some, 2), errUndone)
	})
	if !errors.Is(err, errUndone) {
		return err
	}
	return pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error { return insertAll(ctx, nested, some, 1) })
}

// auditTopics compares the table with the topics, and looks whether the payload is the row's.
func auditTopics(t *testing.T, url string, brokers []string) audit.Report {
	t.Helper()
	found, err := connect(t, url).Query(t.Context(), `SELECT id::text, 'outbox.event.' || aggregatetype, aggregateid, sequence FROM outbox`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[audit.Row])
	if err != nil {
		t.Fatal(err)
	}
	log, err := kafkatest.ReadAll(t.Context(), brokers, topics...)
	if err != nil {
		t.Fatal(err)
	}
	sequences := make(map[string]int64, len(rows))
	for _, row := range rows {
		sequences[row.ID] = row.Sequence
	}
	records := make([]audit.Record, len(log))
	for i, r := range log {
		records[i] = audit.Record{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key),
			ID: header(r, "id"), Position: header(r, "walrelay.lsn"),
		}
		if want := fmt.Sprintf(`{"sequence": %d}`, sequences[records[i].ID]); string(r.Value) != want {
			t.Errorf("%v has the payload %s, its row %s", records[i], r.Value, want)
		}
		if want := partitionOf(string(r.Key)); r.Partition != want {
			t.Errorf("%v: key %s belongs into partition %d", records[i], r.Key, want)
		}
	}
	return audit.Compare(rows, records)
}
