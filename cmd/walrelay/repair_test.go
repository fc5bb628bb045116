package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
)

const smallOutbox = `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`

// stocked is a database with so many rows from before the first start.
func stocked(t *testing.T, rows int) (environ []string, url string) {
	t.Helper()
	url = pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, smallOutbox, fmt.Sprintf(`INSERT INTO outbox SELECT i, 'order', 'k', 't', 'x' FROM generate_series(1, %d) i`, rows))
	brokers := kafkatest.Fake(t).ListenAddrs()
	return []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ","), "WALRELAY_HTTP_LISTEN=off"}, url
}

// The life of a database that walrelay comes to late: its rows are published, a run goes on behind them, the slot is lost,
// repair brings back what is missing, and verify says so all along.
func TestPublishVerifyRepair(t *testing.T) {
	t.Parallel()
	environ, url := stocked(t, 1500)
	says := func(code int, parts []string, args ...string) {
		t.Helper()
		got := walrelay(t, environ, args...)
		for _, part := range parts {
			if !strings.Contains(got.out, part) {
				t.Errorf("%s does not say %q", args, part)
			}
		}
		if got.code != code || t.Failed() {
			t.Fatalf("%s: code %d, want %d\n%s%s", args, got.code, code, got.out, got.err)
		}
	}
	says(exitDifferences, []string{"1,500 rows, 0 of them", "missing:       1,500\n", "public.outbox id 1 (key k, topic outbox.event.order)", "and 1,490 more"}, "verify", "--wait=0s")
	says(exitStopped, []string{"+ 1,500 rows published, 0 were in their topics already\n", "ready: walrelay run"}, "init", "--existing=publish")
	says(exitStopped, []string{"1,500 rows, 1,500 of them are in their topics", "missing:       0\n", "foreign:       0\n"}, "verify")

	runUntil(t, environ, url, `INSERT INTO outbox VALUES (2000, 'order', 'k', 't', 'x')`, "2000")
	pgtest.Exec(t, url, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()`,
		`INSERT INTO outbox SELECT i, 'order', 'l', 't', 'x' FROM generate_series(3001, 3020) i`)
	says(exitStopped, []string{"20 would be published", "missing: public.outbox id 3001 (key l, topic outbox.event.order)", "result would be: repaired"}, "repair", "--dry-run")
	says(exitStopped, []string{"20 published", "+ slot walrelay_test_", "result: repaired\n"}, "repair")
	says(exitStopped, []string{"result: proved\n"}, "repair")
	says(exitStopped, []string{"1,521 rows, 1,521 of them"}, "verify")
	says(exitStopped, []string{"20 rows, 20 of them", "foreign:       0\n"}, "verify", "--ids=3000..4000")

	got := walrelay(t, environ, "verify", "--json")
	var report audit.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.Rows != 1521 || report.Found != 1521 || strings.Count(got.out, "\n") != 1 {
		t.Errorf("as JSON: %v, %s", err, got.out)
	}
	pgtest.Exec(t, url, `DELETE FROM outbox`)
	got = walrelay(t, environ, "repair", "--json")
	var repaired relay.RepairReport
	if err := json.Unmarshal([]byte(got.out), &repaired); err != nil || repaired.Outcome != relay.Unprovable || got.code != exitUnprovable {
		t.Errorf("without rows: code %d, %v, %s%s", got.code, err, got.out, got.err)
	}
	runUntil(t, environ, url, `INSERT INTO outbox VALUES (5000, 'order', 'k', 't', 'x')`, "5000")
}

// runUntil runs until the event of a statement is in Kafka.
func runUntil(t *testing.T, environ []string, url, sql, id string) {
	t.Helper()
	cmd, output := child(t.Context(), environ, "run")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, sql)
	brokers := strings.Split(strings.TrimPrefix(environ[1], "WALRELAY_KAFKA_BROKERS="), ",")
	await(t, "event "+id, func() bool {
		records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.order")
		if err != nil {
			return false
		}
		for _, r := range records {
			if string(r.Headers[0].Value) == id {
				return true
			}
		}
		return false
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("run: %v\n%s", err, output)
	}
}

// What has no slot yet, or no right to read, is one line with the way out.
func TestRepairBadInput(t *testing.T) {
	t.Parallel()
	environ, url := stocked(t, 1)
	if got := walrelay(t, environ, "repair"); got.code != exitPerson || !oneLineWith(got.err, "walrelay: there is neither slot", "walrelay init") {
		t.Errorf("first start: code %d, %s", got.code, got.err)
	}
	poor := append([]string{}, environ...)
	poor[0] = "WALRELAY_POSTGRES_URL=" + asRole(t, url, "REPLICATION")
	if got := walrelay(t, poor, "verify"); got.code != exitPerson || !oneLineWith(got.err, "walrelay: ", "permission denied for table outbox", "GRANT SELECT ON") {
		t.Errorf("no SELECT: code %d, %s", got.code, got.err)
	}
	if got := walrelay(t, environ[:1], "verify"); got.code != exitConfiguration || !strings.Contains(got.err, "kafka.brokers") {
		t.Errorf("no brokers: code %d, %s", got.code, got.err)
	}
}

// A row that no record can be made of does not keep the others back, and is not forgotten.
func TestInitPublishUnpublishable(t *testing.T) {
	t.Parallel()
	environ, url := stocked(t, 3)
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES (4, NULL, 'k', 't', 'x')`)
	got := walrelay(t, environ, "init", "--existing=publish")
	if got.code != exitDifferences || !strings.Contains(got.out, "+ 3 rows published") || !strings.Contains(got.err, "public.outbox id 4") {
		t.Errorf("code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestProgressBar(t *testing.T) {
	t.Parallel()
	var terminal, plain lines
	for _, b := range []*progressBar{{to: &terminal, terminal: true}, {to: &plain}} {
		b.show(audit.Progress{Step: "reading", Done: 500_000, Total: 1_000_000})
		b.show(audit.Progress{Step: "reading", Done: 1_200_000, Total: 1_000_000})
		b.show(audit.Progress{Step: "publishing", Done: 7})
		b.end()
	}
	half := "reading: [===============               ] 50 %, 500,000 of 1,000,000"
	full := "reading: [==============================] 100 %, 1,200,000 of 1,000,000"
	const erase = "\r\x1b[K"
	if diff := cmp.Diff(erase+half+erase+full+erase+"publishing: 7"+erase, terminal.String()); diff != "" {
		t.Errorf("on a terminal (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(half+"\npublishing: 7\n", plain.String()); diff != "" { // a line for each step
		t.Errorf("elsewhere (-want +got):\n%s", diff)
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
