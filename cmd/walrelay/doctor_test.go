package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/doctor"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// Before the first start doctor says what will be made, and with a relay that runs that all is well; a test event goes
// all the way.
func TestDoctor(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb)`)

	got := walrelay(t, environ, "doctor")
	if got.code != exitStopped || !strings.Contains(got.out, "info  slot: slot walrelay_test_") || !strings.Contains(got.out, "ok    table: public.outbox fits its mapping") {
		t.Fatalf("before the first start: code %d\n%s%s", got.code, got.out, got.err)
	}
	cmd, _, address := start(t, environ)
	t.Cleanup(func() { _ = cmd.Wait() }) // killed by the test's context
	await(t, "ready", func() bool { code, _ := get(t, address, "/readyz"); return code == 200 })
	got = walrelay(t, environ, "doctor", "--test-event", "order")
	if got.code != exitPerson || !strings.Contains(got.out, "FAIL  test event: topic outbox.event.order does not exist, so a test event for it was not inserted") {
		t.Errorf("without the topic: code %d\n%s%s", got.code, got.out, got.err)
	}
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'OrderCreated', '{}')`)
	await(t, "the topic", func() bool {
		records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.order")
		return err == nil && len(records) == 1
	})
	got = walrelay(t, environ, "doctor", "--test-event", "order", "--json")
	levels := map[string]doctor.Level{}
	for line := range strings.Lines(got.out) {
		var f doctor.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if f.Text == "" || f.Level == doctor.Fail || f.Level == doctor.Warn && f.Remedy == "" {
			t.Errorf("%+v", f)
		}
		levels[f.Check] = f.Level
	}
	for _, check := range []string{"postgres", "primary", "version", "wal_level", "max_replication_slots", "max_wal_senders", "stream", "table",
		"publication", "holder", "synchronous", "transactions", "clock", "kafka", "topic outbox.event.order", "test event"} {
		if levels[check] != doctor.OK {
			t.Errorf("%s: %q", check, levels[check])
		}
	}
	if levels["retained"] != doctor.Warn || levels["role"] != doctor.Info {
		t.Errorf("no limit to the slot, and a superuser: %v", levels)
	}
	if got.code != exitStopped {
		t.Errorf("code %d %s", got.code, got.err)
	}
	left := walrelay(t, environ, "verify", "--wait", "0s")
	if !strings.Contains(left.out, "1 rows, 1 of them") {
		t.Errorf("the row of the test event is left: %s%s", left.out, left.err)
	}
}

// What cannot be reached is said with its remedy, the rest is looked at all the same.
func TestDoctorWithoutServers(t *testing.T) {
	t.Parallel()
	got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=postgres://u:secret@127.0.0.1:1/shop", "WALRELAY_KAFKA_BROKERS=127.0.0.1:1"}, "doctor")
	if got.code != exitPerson || strings.Contains(got.out+got.err, "secret") ||
		!strings.Contains(got.out, "FAIL  postgres: ") || !strings.Contains(got.out, "check that Postgres runs there") ||
		!strings.Contains(got.out, "FAIL  kafka: ") || !strings.Contains(got.out, "-> check kafka.brokers") {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
	}
}
