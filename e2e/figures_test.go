package e2e

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/relay"
)

// long tells whether the tests are wanted that take minutes; most measure what docs/guarantees.md states.
func long() bool { return os.Getenv("WALRELAY_LONG") == "1" }

// ifLong skips a test that takes minutes unless it is wanted.
func ifLong(t *testing.T) {
	t.Helper()
	if !long() {
		fmt.Fprintf(os.Stderr, "SKIPPED without WALRELAY_LONG=1, since it takes minutes: %s; run make long\n", t.Name())
		t.Skip("WALRELAY_LONG is not 1")
	}
}

// peak is the most memory that the process has had so far, in MiB of resident set (VmHWM of proc_pid_status).
func (w *walrelay) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.Pid()))
	if err != nil {
		t.Skipf("memory is read from /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// within fails the test when the peak is above a limit.
func (w *walrelay) within(t *testing.T, what string, limit int) {
	t.Helper()
	peak := w.peak(t)
	t.Logf("%s: %d MiB at the peak", what, peak)
	if peak > limit {
		t.Errorf("%s: %d MiB, more than %d", what, peak, limit)
	}
}

// outboxRows inserts rows events of a topic, 1000 in a transaction, with payloads of some 100 bytes and 500 keys.
func outboxRows(t *testing.T, url string, first, rows int) {
	t.Helper()
	execute(t, url, fmt.Sprintf(`DO $$ BEGIN FOR tx IN 0..%d LOOP
		INSERT INTO outbox SELECT n, 'figures', 'key-' || n %% 500, 'Changed', jsonb_build_object('n', n, 'text', repeat('x', 80))
			FROM generate_series(%d + tx * 1000::bigint, %d + tx * 1000::bigint + 999) n;
		COMMIT; END LOOP; END $$`, rows/1000-1, first, first))
}

// execute is for statements that take long.
func execute(t *testing.T, url string, statements ...string) {
	t.Helper()
	db := connect(t, url)
	for _, sql := range statements {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

const figuresSQL = `CREATE TABLE outbox (id bigint, aggregatetype text, aggregateid text, type text, payload jsonb)`

func logEnd(t *testing.T, db *pgx.Conn) lsn.End {
	t.Helper()
	var text string
	query(t, db, `SELECT pg_current_wal_insert_lsn()::text`, &text)
	end, err := lsn.ParseEnd(text)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// TestFigureIdle: how much log an idle server writes because of a relay.
func TestFigureIdle(t *testing.T) {
	ifLong(t)
	const watched = 4 * time.Minute
	kafka := kafkatest.Fake(t)
	for _, relayed := range []bool{false, true} {
		t.Run(fmt.Sprint("with a relay: ", relayed), func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, pgtest.Options{})
			url := server.URL("postgres")
			pgtest.Exec(t, url, figuresSQL)
			if relayed {
				w := launch(t, append(relaytest.Variables(url, kafka.ListenAddrs()), relaytest.AnyPort), "run")
				w.awaitLine(t, `"relay is streaming"`)
				outboxRows(t, url, 0, 1000)
				w.awaitConfirmed(t, url)
				defer w.within(t, "idle", 60)
			}
			db := connect(t, url)
			query(t, db, `SELECT count(*) FROM (SELECT pg_switch_wal()) s`, new(int64))
			pgtest.Exec(t, url, "CHECKPOINT")
			before := logEnd(t, db)
			timer := time.NewTimer(watched)
			defer timer.Stop()
			<-timer.C
			bytes := uint64(logEnd(t, db) - before)
			t.Logf("%d bytes of log in %v: %d an hour, extrapolated", bytes, watched, bytes*uint64(time.Hour/watched))
			if bytes > 100_000 {
				t.Errorf("an idle server wrote %d bytes", bytes)
			}
		})
	}
}

// TestFigureKill: what it costs to find out after a kill what is in Kafka already.
func TestFigureKill(t *testing.T) {
	ifLong(t)
	kafka := kafkatest.Start(t, kafkatest.Options{HeapMB: 1024})
	for _, events := range []int{100_000, 1_000_000} {
		t.Run(fmt.Sprint(events, " unconfirmed"), func(t *testing.T) {
			server := pgtest.Start(t, pgtest.Options{})
			url := server.URL("postgres")
			pgtest.Exec(t, url, figuresSQL)
			environ := append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort, "WALRELAY_CHECKPOINT_SAVE_INTERVAL=1m")
			first := launch(t, environ, "run")
			first.awaitLine(t, `"relay is streaming"`)
			first.stop(t)
			before := topicLength(t, kafka.Bootstrap(), "outbox.event.figures")
			outboxRows(t, url, 0, events)
			killed := launch(t, environ, "run")
			awaitWithin(t, 55*time.Second, 200*time.Millisecond, "all are in Kafka, and the row is not saved", func() error {
				if n := topicLength(t, kafka.Bootstrap(), "outbox.event.figures") - before; n < int64(events) {
					return fmt.Errorf("%d of %d", n, events)
				}
				return nil
			})
			peak := killed.peak(t)
			if err := killed.Kill(); err != nil {
				t.Fatal(err)
			}
			outboxRows(t, url, events, 1000)
			began := time.Now()
			next := launch(t, environ, "run")
			next.awaitLine(t, `"relay is streaming"`)
			streaming := time.Since(began)
			awaitWithin(t, 3*time.Minute, 10*time.Millisecond, "the first new event", func() error { return next.HasPublished(t.Context()) })
			published := time.Since(began)
			t.Logf("%d events: the killed relay had %d MiB; the next one streams after %v, publishes the first new event after %v", events,
				peak, streaming.Round(time.Millisecond), published.Round(time.Millisecond))
			next.awaitConfirmed(t, url)
			if n := topicLength(t, kafka.Bootstrap(), "outbox.event.figures") - before; n < int64(events)+1000 || n > int64(events)+1000+2*kafkatest.Partitions {
				t.Errorf("%d records and markers, want %d and few markers", n, events+1000)
			}
			next.within(t, "the next relay", 100+events/2000)
			next.stop(t)
		})
	}
}

// topicLength is how many records and markers a topic has, 0 when there is none.
func topicLength(t *testing.T, brokers []string, topic string) int64 {
	t.Helper()
	n, err := kafkatest.Length(t.Context(), brokers, topic)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatal(err)
	}
	return n
}

// TestFigureStuckPartition: one partition takes nothing, and the others go on for as long as the bound allows.
func TestFigureStuckPartition(t *testing.T) {
	ifLong(t)
	kafka := kafkatest.Fake(t)
	server := pgtest.Start(t, pgtest.Options{})
	url := server.URL("postgres")
	pgtest.Exec(t, url, figuresSQL)
	w := launch(t, append(relaytest.Variables(url, kafka.ListenAddrs()), relaytest.AnyPort), "run")
	w.awaitLine(t, `"relay is streaming"`)
	stuck := kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{3}, Err: kerr.NotEnoughReplicas, Count: -1})
	const rows = 2_000_000
	outboxRows(t, url, 0, rows)
	var at int64
	awaitWithin(t, 3*time.Minute, time.Second, "the relay reads no further", func() error {
		before := at
		at = topicLength(t, kafka.ListenAddrs(), "outbox.event.figures")
		if at == 0 || at != before {
			return fmt.Errorf("%d records", at)
		}
		return nil
	})
	t.Logf("%d of %d records are published beside the stuck ones", at, rows)
	w.within(t, "one partition stuck", 200)
	stuck.Remove()
	awaitWithin(t, 3*time.Minute, time.Second, "everything", func() error {
		if n := topicLength(t, kafka.ListenAddrs(), "outbox.event.figures"); n != rows {
			return fmt.Errorf("%d records", n)
		}
		return nil
	})
	w.awaitConfirmed(t, url)
	w.within(t, "after it", 200)
}

// TestFigureHugeRows: rows of 500 MB are poison, by their identity; they are read over, never held.
func TestFigureHugeRows(t *testing.T) {
	ifLong(t)
	kafka := kafkatest.Fake(t)
	server := pgtest.Start(t, pgtest.Options{})
	url := server.URL("postgres")
	pgtest.Exec(t, url, strings.Replace(figuresSQL, "jsonb", "text", 1))
	environ := append(relaytest.Variables(url, kafka.ListenAddrs()), relaytest.AnyPort)
	w := launch(t, environ, "run")
	w.awaitLine(t, `"relay is streaming"`)
	execute(t, url, `INSERT INTO outbox VALUES (1, 'figures', 'k', 'Changed', 'before')`,
		`INSERT INTO outbox SELECT 2, 'figures', 'k', 'Changed', repeat('x', 500000000)`,
		`INSERT INTO outbox VALUES (3, 'figures', 'k', 'Changed', 'behind')`)
	var event string
	awaitWithin(t, 2*time.Minute, 100*time.Millisecond, "halted", func() error {
		s, err := w.status()
		if err == nil && s.State != relay.Halted {
			err = fmt.Errorf("%s %s", s.State, s.Reason)
		}
		if err == nil {
			_, rest, _ := strings.Cut(s.Reason, "event ")
			event, _, _ = strings.Cut(rest, ": ")
		}
		return err
	})
	w.within(t, "a row of 500 MB", 60)
	skip := launch(t, environ, "skip", event, "--reason", "figures")
	if code := skip.exit(t, patience); code != 0 {
		t.Fatalf("skip %s: exit code %d: %s", event, code, skip.Said())
	}
	awaitRecords(t, kafka.ListenAddrs(), "outbox.event.figures", 2)
	w.within(t, "after it", 60)
}

// TestFigureHugeTransaction: a transaction of a million rows.
func TestFigureHugeTransaction(t *testing.T) {
	ifLong(t)
	kafka := kafkatest.Start(t, kafkatest.Options{HeapMB: 1024})
	server := pgtest.Start(t, pgtest.Options{})
	url := server.URL("postgres")
	pgtest.Exec(t, url, figuresSQL)
	w := launch(t, append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort), "run")
	w.awaitLine(t, `"relay is streaming"`)
	const rows = 1_000_000
	began := time.Now()
	execute(t, url, fmt.Sprintf(`INSERT INTO outbox SELECT n, 'figures', 'key-' || n %% 500, 'Changed',
		jsonb_build_object('n', n, 'text', repeat('x', 80)) FROM generate_series(1, %d) n`, rows))
	committed := time.Since(began)
	awaitWithin(t, 3*time.Minute, 100*time.Millisecond, "everything", func() error {
		if n := topicLength(t, kafka.Bootstrap(), "outbox.event.figures"); n != rows {
			return fmt.Errorf("%d records", n)
		}
		return nil
	})
	t.Logf("committed after %v, all in Kafka after %v", committed.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	w.within(t, "a transaction of a million rows", 100)
}
