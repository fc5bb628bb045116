package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
)

// TestTopicMadeAnew deletes a topic under load and makes it again. What was in it is gone; everything behind goes to the new
// one, each event once and each key in order, and the other topics notice nothing.
func TestTopicMadeAnew(t *testing.T) {
	kafka := kafkatest.Start(t, kafkatest.Options{FastJVM: true})
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, workload.SQL)
	w := launch(t, append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort, "WALRELAY_KAFKA_HALT_RETRY=1s"), "run")
	w.awaitLine(t, `"relay is streaming"`)
	load := startWorkload(t, url, seedOf(t))
	const topic = "outbox.event.order"
	for range 2 {
		await(t, "records", func() error { return atLeast(t, kafka, topic, 100) })
		check(t, kafka.DeleteTopic(t.Context(), topic), kafka.CreateTopic(t.Context(), topic, kafkatest.Partitions, 1, nil))
	}
	await(t, "records", func() error { return atLeast(t, kafka, topic, 100) })
	finish(t, load)
	w.awaitConfirmed(t, url)

	report := auditTopics(t, url, kafka.Bootstrap())
	t.Log(report)
	if report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
		t.Error(report)
	}
	records, err := kafkatest.ReadAll(t.Context(), kafka.Bootstrap(), topic)
	check(t, err)
	db := connect(t, url)
	for key, sequences := range byKey(records) { // the last events of each key, without a hole
		var newest int
		check(t, db.QueryRow(t.Context(), `SELECT sequence FROM keys WHERE key = $1`, key).Scan(&newest))
		first := slices.Min(sequences)
		for i, sequence := range sequences {
			if sequence != first+i {
				t.Fatalf("key %s has the events %v", key, sequences)
			}
		}
		if last := slices.Max(sequences); last != newest {
			t.Errorf("key %s ends with event %d, the database with %d", key, last, newest)
		}
	}
	if missing := report.Lost.Count - (rowsOf(t, db, "order") - len(records)); missing != 0 {
		t.Errorf("%d events of other topics are missing", missing)
	}
}

func atLeast(t *testing.T, kafka *kafkatest.Cluster, topic string, n int64) error {
	t.Helper()
	if have := topicLength(t, kafka.Bootstrap(), topic); have < n {
		return fmt.Errorf("%d records", have)
	}
	return nil
}

func rowsOf(t *testing.T, db *pgx.Conn, aggregate string) (n int) {
	t.Helper()
	query(t, db, `SELECT count(*) FROM outbox WHERE aggregatetype = '`+aggregate+`'`, &n)
	return n
}

// byKey are the sequence numbers of a topic's records.
func byKey(records []kafkatest.Record) map[string][]int {
	found := map[string][]int{}
	for _, r := range records {
		var sequence int
		_, _ = fmt.Sscanf(string(r.Value), `{"sequence": %d}`, &sequence)
		found[string(r.Key)] = append(found[string(r.Key)], sequence)
	}
	return found
}

// TestSlowFollower kills the relay again and again while one of three brokers runs a quarter of the time, so that batches
// stand in the leaders' logs, not acknowledged, and invisible to readers.
func TestSlowFollower(t *testing.T) {
	ifLong(t)
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	kafka := kafkatest.Start(t, kafkatest.Options{Nodes: 3, FastJVM: true})
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, workload.SQL)
	environ := append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort)
	w := launch(t, environ, "run")
	w.awaitLine(t, `"relay is streaming"`)
	load := startWorkload(t, url, seed)
	ctx, stop := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		node := int32(1)
		for ctx.Err() == nil {
			if err := slowed(ctx, kafka, node); err != nil {
				slow <- err
				return
			}
			node = node%3 + 1
		}
		slow <- nil
	}()
	const kills = 20
	for range kills {
		w.awaitPublishing(t)
		w.killAfter(t, time.Duration(rng.Int64N(int64(longestLife))))
		w = launch(t, environ, "run")
	}
	stop()
	check(t, <-slow)
	finish(t, load)
	w.awaitConfirmed(t, url)
	report := auditTopics(t, url, kafka.Bootstrap())
	t.Logf("%d kills beside a slow broker: %v", kills, report)
	if report.Lost.Count+report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
		t.Errorf("with SEED=%d: %v", seed, report)
	}
}

// slowed lets a broker run a quarter of the time for some seconds.
func slowed(ctx context.Context, kafka *kafkatest.Cluster, node int32) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	beat := time.NewTicker(30 * time.Millisecond)
	defer beat.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		if n%4 == 0 {
			if err := kafka.Continue(node); err != nil {
				return err
			}
		} else if n%4 == 1 {
			if err := kafka.Pause(node); err != nil {
				return err
			}
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
		}
	}
	return kafka.Continue(node)
}
