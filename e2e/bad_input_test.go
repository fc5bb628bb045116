package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
)

// The exit codes that walrelay --help documents.
const (
	exitConfiguration = 2
	exitPerson        = 3
)

// nobody is a broker that does not answer.
var nobody = []string{"127.0.0.1:1"}

// TestBadInput: what only a person can mend ends the relay with one line that says what is wrong and what mends it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		url  string // default: that of a database of the test's own; @role takes another role there
		sql  []string
		file string
		code int
		want []string // parts of the line, in this order
	}{
		{name: "URL that is none", url: "postgres:/localhost:app",
			code: exitConfiguration, want: []string{"postgres.url", "WALRELAY_POSTGRES_URL", "want postgres://user:password@host:5432/database"}},
		{name: "unknown database", url: "/no_such_database",
			code: exitPerson, want: []string{`database "no_such_database" does not exist`, "check user, password and database"}},
		{name: "unknown role", url: "@no_such_role",
			code: exitPerson, want: []string{`role "no_such_role" does not exist`, "check user, password and database"}},
		{name: "unknown key in the file", file: "kafka:\n  borkers: [localhost:9092]\n",
			code: exitConfiguration, want: []string{"kafka.borkers", "walrelay.yaml:2", "did you mean kafka.brokers"}},
		{name: "no privilege to replicate", url: "@e2e_reader", sql: []string{outboxSQL},
			code: exitPerson, want: []string{"permission denied", `ALTER ROLE "e2e_reader" REPLICATION`}},
		{name: "no privilege to create", url: "@e2e_replicator", sql: []string{outboxSQL},
			code: exitPerson, want: []string{"role e2e_replicator may not", "permission denied", "walrelay init --sql"}},
		{name: "no table",
			code: exitPerson, want: []string{"public.outbox does not exist", "walrelay init creates it", "setting tables"}},
		{name: "table under another name", sql: []string{outboxSQL, `ALTER TABLE outbox RENAME TO events`},
			code: exitPerson, want: []string{"public.outbox does not exist", "setting tables", "public.events"}},
		{name: "table without the columns", sql: []string{`CREATE TABLE outbox (id uuid, body text)`},
			code: exitPerson, want: []string{`no column "aggregatetype"`, "id, body", "in the configuration"}},
		{name: "unlogged table", sql: []string{outboxSQL, `ALTER TABLE outbox SET UNLOGGED`},
			code: exitPerson, want: []string{"public.outbox is unlogged", `ALTER TABLE "public"."outbox" SET LOGGED;`}},
		{name: "table that is not empty", sql: []string{outboxSQL, `INSERT INTO outbox VALUES (gen_random_uuid(), 'a', 'b', 'c', '{}')`},
			code: exitPerson, want: []string{"public.outbox is not empty", "walrelay init --existing=skip"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Shared(t, "")
			url := server.Database(t)
			pgtest.Exec(t, url, c.sql...)
			environ := append(relaytest.Variables(urlFor(t, server, url, c.url), nobody), relaytest.AnyPort)
			if c.file != "" {
				path := filepath.Join(t.TempDir(), "walrelay.yaml")
				if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
				environ = append(environ, "WALRELAY_CONFIG="+path)
			}
			checkRefusal(t, launch(t, environ, "run"), c.code, c.want)
		})
	}
}

// urlFor applies a case's change to the URL of a database: another role, another database, or another URL.
func urlFor(t *testing.T, server *pgtest.Server, url, change string) string {
	t.Helper()
	switch {
	case strings.HasPrefix(change, "/"):
		return server.URL(change[1:])
	case change == "@e2e_reader", change == "@e2e_replicator":
		role := change[1:]
		pgtest.Exec(t, url, "CREATE ROLE "+role+" LOGIN")
		t.Cleanup(func() { pgtest.Exec(t, server.URL("postgres"), "DROP ROLE "+role) })
		if role == "e2e_replicator" {
			pgtest.Exec(t, url, "ALTER ROLE "+role+" REPLICATION")
		}
		fallthrough
	case strings.HasPrefix(change, "@"):
		return strings.Replace(url, "postgres@", change[1:]+"@", 1)
	case change != "":
		return change
	}
	return url
}

// checkRefusal waits for the end: log lines, then one line for a person.
func checkRefusal(t *testing.T, w *walrelay, code int, want []string) {
	t.Helper()
	if got := w.exit(t, patience); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	lines := strings.Split(strings.TrimSuffix(w.Said(), "\n"), "\n")
	line := lines[len(lines)-1]
	rest, ok := strings.CutPrefix(line, "walrelay: ")
	for _, part := range want {
		if ok {
			_, rest, ok = strings.Cut(rest, part)
		}
	}
	if !ok {
		t.Errorf("the last line lacks a part of %q, in this order:\n%s", want, line)
	}
	for _, line := range lines[:len(lines)-1] {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("more than one line for a person: %s", line)
		}
	}
}

// TestWALLevelReplica: the setting needs a restart of the server, so that waiting cannot help.
func TestWALLevelReplica(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_level": "replica"}})
	url := server.URL("postgres")
	pgtest.Exec(t, url, outboxSQL)
	w := launch(t, append(relaytest.Variables(url, nobody), relaytest.AnyPort), "run")
	checkRefusal(t, w, exitPerson, []string{"wal_level is replica", "ALTER SYSTEM SET wal_level = logical", "restart Postgres"})
}

// TestPostgresAbsent: a server that does not answer may be on its way. The relay waits, unready, and begins when it comes.
func TestPostgresAbsent(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	pgtest.Exec(t, server.URL("postgres"), outboxSQL)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	w := launch(t, append(relaytest.Variables(server.URL("postgres"), nobody), relaytest.AnyPort), "run")
	w.findPages(t)
	w.awaitUnready(t, "connection refused")
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitLine(t, `"relay is streaming"`)
}

// awaitUnready waits until /readyz gives the reason; the relay lives.
func (w *walrelay) awaitUnready(t *testing.T, reason string) {
	t.Helper()
	await(t, "unready: "+reason, func() error {
		code, body, err := w.page("/readyz")
		if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(body, reason)) {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
	if code, body, err := w.page("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz while it waits: %d %s %v", code, body, err)
	}
}

// TestKafkaAbsent: the relay keeps trying and is not ready while events wait; the log is the buffer. When the broker comes
// everything arrives, in order.
func TestKafkaAbsent(t *testing.T) {
	t.Parallel()
	kafka := kafkatest.Start(t, kafkatest.Options{FastJVM: true})
	if err := kafka.Kill(1); err != nil {
		t.Fatal(err)
	}
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, outboxSQL)
	w := launch(t, append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort), "run")
	w.findPages(t)
	w.awaitUnready(t, "kafka")
	pgtest.Exec(t, url, `INSERT INTO outbox SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'absent', 'o-1', 'OrderChanged',
		to_jsonb(n) FROM generate_series(1, 1000) n`)
	await(t, "the relay has read", func() error {
		s, err := w.status()
		if err == nil && s.LagBytes == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	w.awaitUnready(t, "kafka")
	var confirmed, saved string
	conn := connect(t, url)
	query(t, conn, `SELECT confirmed_flush_lsn::text, (SELECT lsn::text FROM walrelay.checkpoint) FROM pg_replication_slots
		WHERE database = current_database()`, &confirmed, &saved)
	if confirmed != saved {
		t.Errorf("slot at %s, row at %s, though nothing was acknowledged", confirmed, saved)
	}

	if err := kafka.StartNode(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	all := awaitRecords(t, kafka.Bootstrap(), "outbox.event.absent", 1000)
	t.Logf("all there %v after Kafka", time.Since(began).Round(time.Millisecond))
	for i, r := range all {
		if want := fmt.Sprint(i + 1); string(r.Value) != want || r.Offset != int64(i) {
			t.Fatalf("record %d at offset %d is %s, want %s", i, r.Offset, r.Value, want)
		}
	}
	w.awaitReady(t)
	await(t, "the slot moves", func() error {
		var moved bool
		query(t, conn, `SELECT confirmed_flush_lsn > '`+confirmed+`' FROM pg_replication_slots WHERE database = current_database()`, &moved)
		if !moved {
			return errors.New("not yet")
		}
		return nil
	})
	w.stop(t)
}
