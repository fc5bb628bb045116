package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// While an application writes and a relay publishes, a role that may only read the checkpoint and delete from the outbox deletes
// all that is in Kafka, and nothing else: every event arrives, and at the end nothing is left.
func TestPruneBesideRelay(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ","), "WALRELAY_CHECKPOINT_SAVE_INTERVAL=100ms"}
	if got := walrelay(t, environ, "init"); got.code != exitStopped {
		t.Fatal(got.err)
	}
	roleURL := asRole(t, url, "")
	role := strings.TrimSuffix(strings.TrimPrefix(roleURL, "postgres://"), roleURL[strings.Index(roleURL, "@"):])
	pruner := []string{"WALRELAY_POSTGRES_URL=" + roleURL}
	if got := walrelay(t, pruner, "prune"); got.code == exitStopped || !strings.Contains(got.err, "permission denied") {
		t.Errorf("without grants: code %d, %s", got.code, got.err)
	}
	pgtest.Exec(t, url, "GRANT USAGE ON SCHEMA walrelay TO "+role, "GRANT SELECT ON walrelay.checkpoint TO "+role, "GRANT SELECT, DELETE, UPDATE (id) ON outbox TO "+role)

	relay, output, _ := start(t, environ)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const events = 600
	for i := range events {
		_, err := conn.Exec(t.Context(), `INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', $1, 't')`, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if i%50 != 0 {
			continue
		}
		if got := walrelay(t, pruner, "prune", "--older-than", "0s"); got.code != exitStopped && !strings.Contains(got.err, "not known yet") {
			t.Fatalf("code %d, %s", got.code, got.err)
		}
	}
	await(t, "every row in Kafka and out of the outbox", func() bool {
		got := walrelay(t, pruner, "prune", "--older-than", "0s", "--batch", "100")
		var left int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&left); err != nil || got.code != exitStopped {
			t.Fatalf("%v, code %d, %s", err, got.code, got.err)
		}
		return left == 0
	})
	records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.order")
	keys := map[string]bool{}
	for _, r := range records {
		keys[string(r.Key)] = true
	}
	if err != nil || len(records) != events || len(keys) != events {
		t.Errorf("%d records, %d keys, want %d; %v\n%s", len(records), len(keys), events, err, output)
	}
	if err := relay.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := relay.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPruneUsage(t *testing.T) {
	t.Parallel()
	environ := []string{"WALRELAY_POSTGRES_URL=postgres://u@127.0.0.1:1/db"}
	for _, c := range []struct{ line, want string }{
		{"prune --older-than yesterday", "--older-than"}, {"prune --batch -1", "batch -1"}, {"prune --partitions hour", "want day, week or month"},
		{"prune --archive-file /nowhere/at/all", "no such file"},
	} {
		got := walrelay(t, environ, strings.Fields(c.line)...)
		if got.code != exitConfiguration || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: code %d, %s", c.line, got.code, got.err)
		}
	}
	if age, err := parseAge("1.5d"); err != nil || age.Hours() != 36 {
		t.Errorf("1.5d is %v, %v", age, err)
	}
}
