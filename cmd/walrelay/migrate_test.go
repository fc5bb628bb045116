package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

// move is a database that is moved to walrelay while an application writes.
type move struct {
	t       *testing.T
	url     string
	brokers []string
	environ []string
	conn    *pgx.Conn
}

func newMove(t *testing.T, table string) *move {
	t.Helper()
	m := &move{t: t, url: pgtest.Shared(t, "").Database(t), brokers: kafkatest.Fake(t).ListenAddrs()}
	m.environ = []string{"WALRELAY_POSTGRES_URL=" + m.url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(m.brokers, ","), "WALRELAY_CHECKPOINT_SAVE_INTERVAL=100ms"}
	pgtest.Exec(t, m.url, table)
	conn, err := pgx.Connect(t.Context(), m.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	m.conn = conn
	return m
}

// script is the SQL of a page that has the name, with other words for some of its own.
func script(t *testing.T, page, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sql " + regexp.QuoteMeta(name) + "\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no script %s", page, name)
	}
	return strings.NewReplacer(replace...).Replace(string(block[1]))
}

// write is the application: it inserts rows until the returned function is called.
func (m *move) write(insert string) (stop func() int) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	var rows atomic.Int64
	done := make(chan error, 1)
	go func() {
		conn, err := pgx.Connect(m.t.Context(), m.url)
		for err == nil && ctx.Err() == nil {
			if _, err = conn.Exec(m.t.Context(), insert, fmt.Sprintf("live %d", rows.Load())); err == nil {
				rows.Add(1)
			}
		}
		if conn != nil {
			_ = conn.Close(context.Background())
		}
		done <- err
	}()
	await(m.t, "the application writes", func() bool { return rows.Load() > 20 })
	return func() int {
		at := rows.Load()
		await(m.t, "the application goes on", func() bool { return rows.Load() > at+20 })
		cancel()
		if err := <-done; err != nil {
			m.t.Error(err)
		}
		return int(rows.Load())
	}
}

// poller publishes a row as the relay before did.
func (m *move) poller(topic, key, header, id string) {
	m.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(m.brokers...), kgo.AllowAutoTopicCreation())
	if err != nil {
		m.t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: header, Value: []byte(id)}}}
	if err := client.ProduceSync(m.t.Context(), record).FirstErr(); err != nil {
		m.t.Fatal(err)
	}
}

// run starts the relay and waits until it streams.
func (m *move) run() *exec.Cmd {
	m.t.Helper()
	cmd, output, address := start(m.t, m.environ)
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Log(output)
		}
	})
	await(m.t, "ready", func() bool {
		code, _ := get(m.t, address, "/readyz")
		return code == http.StatusOK
	})
	return cmd
}

// init runs walrelay init --existing=publish.
func (m *move) init() {
	m.t.Helper()
	if got := walrelay(m.t, m.environ, "init", "--existing=publish"); got.code != exitStopped {
		m.t.Fatalf("init: code %d, %s%s", got.code, got.out, got.err)
	}
}

// once waits until the topic has every key, and checks that it has each as often as wanted.
func (m *move) once(topic string, keys ...string) {
	m.t.Helper()
	var seen map[string]int
	await(m.t, fmt.Sprintf("%d keys in %s", len(keys), topic), func() bool {
		records, err := kafkatest.ReadAll(m.t.Context(), m.brokers, topic)
		if seen = map[string]int{}; err != nil {
			return false
		}
		for _, r := range records {
			seen[string(r.Key)]++
		}
		return len(seen) >= len(keys)
	})
	for _, key := range keys {
		if seen[key] != 1 {
			m.t.Errorf("%s is in %s %d times", key, topic, seen[key])
		}
	}
	if len(seen) != len(keys) {
		m.t.Errorf("%d keys in %s, want %d", len(seen), topic, len(keys))
	}
}

func stopped(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func numbered(name string, n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s %d", name, i))
	}
	return list
}

const courseTable = `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type varchar(255) NOT NULL, aggregate_id varchar(255) NOT NULL,
	event_type varchar(255) NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz);
	CREATE INDEX ix_outbox_unpublished ON outbox (created_at) WHERE published_at IS NULL`

// The rows that the poller has left, and those that the application writes meanwhile, are published once.
func TestMigrateFromPolling(t *testing.T) {
	t.Parallel()
	m := newMove(t, courseTable)
	const insert = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', $1, 'OrderCreated', '{}')`
	for i := range 30 {
		var id string
		key := fmt.Sprintf("old %d", i)
		if err := m.conn.QueryRow(t.Context(), insert+` RETURNING id`, key).Scan(&id); err != nil {
			t.Fatal(err)
		}
		if i < 20 {
			m.poller("outbox.event.order", key, "id", id)
			pgtest.Exec(t, m.url, `UPDATE outbox SET published_at = now() WHERE id = '`+id+`'`)
		}
	}
	m.poller("outbox.event.order", "sent, not marked", "id", "0f8fad5b-d9cb-469f-a165-70867728950e")
	pgtest.Exec(t, m.url, `INSERT INTO outbox VALUES ('0f8fad5b-d9cb-469f-a165-70867728950e', 'order', 'sent, not marked', 't', '{}')`)

	stop := m.write(insert)
	pgtest.Exec(t, m.url, script(t, "migrate.md", "polling"))
	m.init()
	relay := m.run()
	live := stop()
	pgtest.Exec(t, m.url, script(t, "migrate.md", "polling-after"))
	keys := append(append(numbered("old", 30), numbered("live", live)...), "sent, not marked")
	m.once("outbox.event.order", keys...)
	stopped(t, relay)
}

// omniBox are its tables as its documentation has them, less what nothing here depends on.
const omniBox = `CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type varchar(100) NOT NULL DEFAULT 't', aggregate_type varchar(50) NOT NULL DEFAULT 'order',
		aggregate_id uuid NOT NULL DEFAULT gen_random_uuid(), topic varchar(255) NOT NULL DEFAULT 'orders.v1', partition_key varchar(255) NOT NULL,
		payload jsonb NOT NULL DEFAULT '{}', headers jsonb, trace_id varchar(64), idempotency_key varchar(128), correlation_id varchar(64), causation_id varchar(64),
		schema_version varchar(50), status varchar(20) NOT NULL DEFAULT 'pending', attempts_made integer NOT NULL DEFAULT 0, max_attempts integer NOT NULL DEFAULT 6,
		last_error varchar(2000), scheduled_at timestamptz NOT NULL, completed_at timestamptz, locked_at timestamptz, locked_by varchar(255),
		created_at timestamptz NOT NULL DEFAULT timezone('UTC', now()), updated_at timestamptz DEFAULT timezone('UTC', now()),
		CHECK ((status = 'completed' AND completed_at IS NOT NULL) OR (status <> 'completed' AND completed_at IS NULL)));
	CREATE TABLE inbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), message_id varchar(255) NOT NULL, consumer_group varchar(255) NOT NULL,
		status varchar(20) NOT NULL DEFAULT 'pending', completed_at timestamptz);
	CREATE UNIQUE INDEX ON inbox_events (message_id, consumer_group)`

// What omni-box has published or given up stays away, what is due comes once, and what is of the future comes in its time.
func TestMigrateFromOmniBox(t *testing.T) {
	t.Parallel()
	m := newMove(t, omniBox)
	file := t.TempDir() + "/walrelay.yaml"
	if err := os.WriteFile(file, []byte("tables:\n  - name: public.outbox_events\n    preset: omni-box\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, m.url, `INSERT INTO outbox_events (partition_key, status, completed_at, scheduled_at) SELECT 'done ' || n, 'completed', now(), now() FROM generate_series(0, 9) n`,
		`INSERT INTO outbox_events (partition_key, status, attempts_made, scheduled_at) VALUES ('given up', 'failed', 6, now())`,
		`INSERT INTO outbox_events (partition_key, scheduled_at) SELECT 'due ' || n, now() - interval '1 minute' FROM generate_series(0, 9) n`,
		`INSERT INTO outbox_events (partition_key, scheduled_at) VALUES ('tomorrow', now() + interval '1 day')`,
		`INSERT INTO inbox_events (message_id, consumer_group, status, completed_at) VALUES ('m1', 'billing', 'completed', now()), ('m2', 'billing', 'pending', NULL)`)
	stop := m.write(`INSERT INTO outbox_events (partition_key, scheduled_at) VALUES ($1, now())`)
	pgtest.Exec(t, m.url, script(t, "migrate.md", "omni-box"))
	if got := walrelay(t, m.environ, "--config", file, "init", "--existing=publish"); got.code != exitStopped {
		t.Fatalf("init: code %d, %s%s", got.code, got.out, got.err)
	}
	relay, output := child(t.Context(), append(m.environ, "WALRELAY_HTTP_LISTEN=off"), "--config", file, "run")
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(output)
		}
	})
	keys := append(numbered("due", 10), numbered("live", stop())...)
	m.once("orders.v1", keys...)

	due := script(t, "migrate.md", "omni-box-due")
	pgtest.Exec(t, m.url, due)
	m.once("orders.v1", keys...)
	pgtest.Exec(t, m.url, `UPDATE outbox_events_later SET scheduled_at = now()`, due)
	m.once("orders.v1", append(keys, "tomorrow")...)

	pgtest.Exec(t, m.url, script(t, "migrate.md", "omni-box-inbox"))
	for id, want := range map[string]bool{"m1": false, "m2": true} {
		var first bool
		if err := m.conn.QueryRow(t.Context(), `SELECT walrelay.consumed('billing', $1)`, id).Scan(&first); err != nil || first != want {
			t.Errorf("%s: first %v, %v", id, first, err)
		}
	}
	stopped(t, relay)
}

// A table becomes a partitioned one while the application writes and the relay runs, and loses and repeats nothing.
func TestMigrateToPartitions(t *testing.T) {
	t.Parallel()
	m := newMove(t, migrations.OutboxSQL("public", "outbox"))
	m.init()
	relay := m.run()
	stop := m.write(`INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', $1, 't')`)
	pgtest.Exec(t, m.url, script(t, "applications.md", "partitioned", "walrelay_shop", "walrelay_"+m.conn.Config().Database))
	got := walrelay(t, m.environ, "prune", "--partitions", "day", "--older-than", "30d")
	if got.code != exitStopped || strings.Count(got.out, "created") != 14 {
		t.Errorf("prune: code %d, %s%s", got.code, got.out, got.err)
	}
	pgtest.Exec(t, m.url, `INSERT INTO outbox (aggregatetype, aggregateid, type, created_at) VALUES ('order', 'tomorrow', 't', now() + interval '1 day')`)
	keys := append(numbered("live", stop()), "tomorrow")
	m.once("outbox.event.order", keys...)
	stopped(t, relay)
	relay = m.run() // proves that nothing is missing
	pgtest.Exec(t, m.url, `INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', 'after', 't')`)
	m.once("outbox.event.order", append(keys, "after")...)
	stopped(t, relay)
}

// The grants of the page are enough for prune.
func TestPruneGrants(t *testing.T) {
	t.Parallel()
	m := newMove(t, migrations.OutboxSQL("public", "outbox"))
	m.init()
	role := fmt.Sprintf("pruner_%d", time.Now().UnixNano())
	t.Cleanup(func() { pgtest.Exec(t, m.url, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	pgtest.Exec(t, m.url, script(t, "applications.md", "prune-grants", "pruner", role),
		`INSERT INTO outbox (aggregatetype, aggregateid, type, created_at) VALUES ('order', 'k', 't', now() - interval '9 days')`,
		`UPDATE walrelay.checkpoint SET horizon = pg_current_xact_id()`)
	got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=" + strings.Replace(m.url, "postgres://postgres@", "postgres://"+role+"@", 1)}, "prune")
	if got.code != exitStopped || got.out != "public.outbox: 1 rows deleted\n" {
		t.Errorf("code %d, %s%s", got.code, got.out, got.err)
	}
}
