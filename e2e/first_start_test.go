package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
	"github.com/walrelay/walrelay/lsn"
)

// TestFirstStart: two variables and an outbox table are all that is needed.
func TestFirstStart(t *testing.T) {
	kafka := kafkatest.Shared(t, 1)
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, outboxSQL)

	w := launch(t, relaytest.Variables(url, kafka.Bootstrap()), "run")
	w.awaitLine(t, `"address":"127.0.0.1:9187"`) // the default
	w.awaitReady(t)
	before := time.Now()
	pgtest.Exec(t, url,
		`BEGIN;
		INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000001', 'first', 'o-1', 'OrderCreated', '{"b": 1, "a": "ü"}');
		INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000002', 'first', 'o-2', 'OrderCreated', NULL);
		SAVEPOINT s;
		INSERT INTO outbox VALUES ('00000000-0000-0000-0000-0000000000ff', 'first', 'o-1', 'NeverHappened', '1');
		ROLLBACK TO s;
		INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000003', 'first', 'o-1', 'OrderPaid', '[1, 2]');
		COMMIT`,
		`BEGIN;
		INSERT INTO outbox VALUES ('00000000-0000-0000-0000-0000000000ff', 'first', 'o-1', 'NeverHappened', '1');
		ROLLBACK`,
		`UPDATE outbox SET payload = '"other"'; DELETE FROM outbox`,
		`BEGIN;
		INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000004', 'first', 'o-1', 'OrderShipped', '{}');
		DELETE FROM outbox;
		COMMIT`)

	const topic = "outbox.event.first"
	got := inCommitOrder(awaitRecords(t, kafka.Bootstrap(), topic, 4))
	want := []kafkatest.Record{
		{Key: []byte("o-1"), Value: []byte(`{"a": "ü", "b": 1}`), Headers: []kafkatest.Header{{Name: "id", Value: []byte("00000000-0000-0000-0000-000000000001")}}},
		{Key: []byte("o-2"), Headers: []kafkatest.Header{{Name: "id", Value: []byte("00000000-0000-0000-0000-000000000002")}}},
		{Key: []byte("o-1"), Value: []byte(`[1, 2]`), Headers: []kafkatest.Header{{Name: "id", Value: []byte("00000000-0000-0000-0000-000000000003")}}},
		{Key: []byte("o-1"), Value: []byte(`{}`), Headers: []kafkatest.Header{{Name: "id", Value: []byte("00000000-0000-0000-0000-000000000004")}}},
	}
	positions := checkPositions(t, url, got, before, time.Now())
	for i := range got { // checked already
		want[i].Topic, want[i].Partition, want[i].Offset, want[i].Timestamp = topic, workload.PartitionOf(string(want[i].Key)), got[i].Offset, got[i].Timestamp
		want[i].ProducerID, want[i].ProducerEpoch = got[i].ProducerID, got[i].ProducerEpoch
		want[i].Headers = append(want[i].Headers, kafkatest.Header{Name: "walrelay.lsn", Value: []byte(positions[i].String())})
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	checkPages(t, w)
	checkStop(t, w, url)

	// The next start goes on where this one has ended.
	w = launch(t, append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort), "run")
	w.findPages(t)
	w.awaitReady(t)
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000005', 'first', 'o-2', 'OrderPaid', '{}')`)
	if again := inCommitOrder(awaitRecords(t, kafka.Bootstrap(), topic, 5)); string(again[4].Headers[0].Value) != "00000000-0000-0000-0000-000000000005" {
		t.Errorf("after the second start: %v", again)
	}
	checkStop(t, w, url)
	if all := awaitRecords(t, kafka.Bootstrap(), topic, 5); len(all) != 5 {
		t.Errorf("%d records in the end, want 5", len(all))
	}
}

// awaitRecords waits until the topic has n records, and returns all in log order of each partition.
func awaitRecords(t *testing.T, brokers []string, topic string, n int) (records []kafkatest.Record) {
	t.Helper()
	await(t, fmt.Sprintf("%d records in %s", n, topic), func() (err error) {
		if records, err = kafkatest.ReadAll(t.Context(), brokers, topic); err == nil && len(records) < n {
			err = fmt.Errorf("%d so far", len(records))
		}
		return err
	})
	return records
}

// inCommitOrder sorts records by their positions.
func inCommitOrder(records []kafkatest.Record) []kafkatest.Record {
	slices.SortFunc(records, func(a, b kafkatest.Record) int {
		x, _ := lsn.ParseIdentity(workload.Header(a, "walrelay.lsn"))
		y, _ := lsn.ParseIdentity(workload.Header(b, "walrelay.lsn"))
		return cmp.Or(cmp.Compare(x.Commit, y.Commit), cmp.Compare(x.Ordinal, y.Ordinal))
	})
	return records
}

// checkPositions looks at what the position header says: three rows of one transaction and one of another, of this
// database, and the record's time, which is the commit's.
func checkPositions(t *testing.T, url string, records []kafkatest.Record, after, before time.Time) []lsn.Identity {
	t.Helper()
	var system, name, end string
	var database uint32
	query(t, connect(t, url), `SELECT (SELECT system_identifier::text FROM pg_control_system()), current_database(),
		(SELECT oid FROM pg_database WHERE datname = current_database()), pg_current_wal_lsn()::text`, &system, &name, &database, &end)
	position, err := lsn.ParseEnd(end)
	if err != nil {
		t.Fatal(err)
	}
	var identities []lsn.Identity
	for _, r := range records {
		id, err := lsn.ParseIdentity(workload.Header(r, "walrelay.lsn"))
		if err != nil {
			t.Fatal(err)
		}
		committed := time.UnixMicro(id.Time)
		if id.Source != lsn.SourceOf(system, database, "walrelay_"+name) || !id.Commit.CoveredBy(position) ||
			committed.Before(after.Truncate(time.Microsecond)) || committed.After(before) {
			t.Errorf("position %v: want system %s, database %d, below %s, committed between %v and %v", id, system, database, end, after, before)
		}
		if !r.Timestamp.Equal(committed.Truncate(time.Millisecond)) {
			t.Errorf("record time %v, committed at %v", r.Timestamp, committed)
		}
		identities = append(identities, id)
	}
	first, second := identities[0], identities[3]
	want := []lsn.Identity{first, first, first, second}
	for i, ordinal := range []uint32{1, 2, 3, 1} {
		want[i].Ordinal = ordinal
	}
	if diff := gocmp.Diff(want, identities); diff != "" || first.Commit >= second.Commit {
		t.Errorf("positions %v: %s", identities, diff)
	}
	return identities
}

func checkPages(t *testing.T, w *walrelay) {
	t.Helper()
	for path, parts := range map[string][]string{
		"/healthz": {"ok\n"},
		"/readyz":  {"ok\n"},
		"/status":  {`"state": "streaming"`, `"slot": "walrelay_test_`, `"ready": true`},
		"/metrics": {"\nwalrelay_events_total{table=\"public.outbox\"} 4\n", "\nwalrelay_event_bytes_total{", "\nwalrelay_published_total{topic=\"outbox.event.first\"} 4\n",
			"\nwalrelay_lag_bytes{position=\"slot\"} ", "\nwalrelay_oldest_unconfirmed_seconds 0\n", "\nwalrelay_in_flight_messages 0\n",
			"\nwalrelay_errors_total{class=\"kafka\"} 0\n", "\nwalrelay_reconnects_total 0\n", "\nwalrelay_ready 1\n"},
	} {
		await(t, path, func() error {
			code, body, err := w.page(path)
			for _, part := range parts {
				if err == nil && (code != http.StatusOK || !strings.Contains("\n"+body, part)) {
					err = fmt.Errorf("%d without %q:\n%s", code, part, body)
				}
			}
			return err
		})
	}
}

// checkStop ends the relay with SIGTERM: nothing is left to do, and the slot stands where the row does.
func checkStop(t *testing.T, w *walrelay, url string) {
	t.Helper()
	w.stop(t)
	var state, saved, confirmed, slot string
	var active bool
	query(t, connect(t, url), `SELECT c.state, c.lsn::text, s.confirmed_flush_lsn::text, s.active, s.slot_name
		FROM walrelay.checkpoint c JOIN pg_replication_slots s ON s.slot_name = c.slot`, &state, &saved, &confirmed, &active, &slot)
	if state != "clean" || saved != confirmed || active || !strings.HasPrefix(slot, "walrelay_test_") {
		t.Errorf("row %s at %s, slot %s at %s, active: %v; want a clean row, both at the same position", state, saved, slot, confirmed, active)
	}
}

// TestSecondSignal: the first signal waits for Kafka, the second for nothing.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, outboxSQL)
	w := launch(t, append(relaytest.Variables(url, []string{"127.0.0.1:1"}), relaytest.AnyPort, "WALRELAY_DRAIN_TIMEOUT=10m"), "run")
	w.awaitLine(t, `"relay is streaming"`)
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000001', 'second', 'o-1', 'OrderCreated', '{}')`)
	w.findPages(t)
	await(t, "the event is read, or there is nothing to drain", func() error {
		status, err := w.status()
		if err == nil && status.LagSeconds == 0 {
			err = errors.New("no transaction is open")
		}
		return err
	})
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.awaitLine(t, "a second signal ends at once")
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.exit(t, 5*time.Second); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}
