package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// A database with nothing in it becomes ready by one command, and by the command again nothing changes.
func TestInit(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url}

	got := walrelay(t, environ, "init")
	for _, line := range []string{"+ table public.outbox created\n", "+ schema walrelay created", "+ publication walrelay_test_", "+ slot walrelay_test_", "ready: walrelay run relays from slot walrelay_test_"} {
		if !strings.Contains(got.out, line) {
			t.Errorf("init does not say %q:\n%s", line, got.out)
		}
	}
	if got.code != exitStopped || got.err != "" {
		t.Fatalf("code %d, %s", got.code, got.err)
	}

	got = walrelay(t, environ, "init")
	if got.code != exitStopped || strings.Contains(got.out, "+ ") || !strings.Contains(got.out, "  table public.outbox: there\n") {
		t.Errorf("again: code %d, %s%s", got.code, got.out, got.err)
	}
}

// The script does what init does: after it, init finds everything there.
func TestInitSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url}
	got := walrelay(t, environ, "init", "--sql", "--slot", "by_script")
	if got.code != exitStopped || got.err != "" || !strings.Contains(got.out, "CREATE TABLE") || !strings.Contains(got.out, "CREATE PUBLICATION") {
		t.Fatalf("code %d, %s%s", got.code, got.out, got.err)
	}
	pgtest.Exec(t, url, statements(got.out)...)
	got = walrelay(t, environ, "init", "--slot", "by_script")
	if got.code != exitStopped || strings.Contains(got.out, "+ ") || !strings.Contains(got.out, "ready: ") {
		t.Errorf("after the script: code %d, %s%s", got.code, got.out, got.err)
	}
}

// A DBA may want the script before there is a role or a server that lets us in.
func TestInitSQLWithoutServer(t *testing.T) {
	t.Parallel()
	got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=postgres://u:secret@127.0.0.1:1/shop"}, "init", "--sql")
	if got.code != exitStopped || !strings.Contains(got.out, "CREATE PUBLICATION \"walrelay_shop\"") || strings.Contains(got.out, "CREATE TABLE public.outbox") {
		t.Errorf("code %d, %s", got.code, got.out)
	}
	if !oneLineWith(got.err, "walrelay: the script takes the outbox tables as existing", "127.0.0.1:1") || strings.Contains(got.err, "secret") {
		t.Errorf("said: %s", got.err)
	}
}

// Rows that are older than the slot are refused, or skipped when a person says so.
func TestInitExistingRows(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`,
		`INSERT INTO outbox VALUES (1, 'a', 'b', 'c', 'd')`)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url}
	got := walrelay(t, environ, "init")
	if got.code != exitPerson || !oneLineWith(got.err, "walrelay: ", "--existing=skip") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
	if got = walrelay(t, environ, "init", "--existing=skip"); got.code != exitStopped {
		t.Errorf("skip: code %d, %s", got.code, got.err)
	}
}

// Each thing that can be wrong with the database is one line with the remedy, and never a password.
func TestInitBadInput(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t, "")
	const outbox = `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`
	for _, c := range []struct {
		name   string
		sql    []string
		url    func(t *testing.T, url string) string
		args   []string
		code   int
		begin  string
		remedy string
	}{
		{"nothing listens", nil, func(*testing.T, string) string { return "postgres://u:secret@127.0.0.1:1/db" }, nil,
			exitUnexpected, "walrelay: connect to Postgres: ", "check that Postgres runs there"},
		{"no database", nil, func(_ *testing.T, url string) string { return strings.Replace(url, "?", "_not?", 1) }, nil,
			exitPerson, "walrelay: connect to Postgres: ", "check user, password and database"},
		{"no URL", nil, func(*testing.T, string) string { return "u:secret@h/db" }, nil,
			exitConfiguration, "walrelay: configuration: postgres.url = \"***\" (WALRELAY_POSTGRES_URL): cannot be read", "want postgres://"},
		{"role without REPLICATION", []string{outbox}, func(t *testing.T, url string) string { return asRole(t, url, "") }, nil,
			exitPerson, "walrelay: ", "REPLICATION"},
		{"role without CREATE", []string{outbox}, func(t *testing.T, url string) string { return asRole(t, url, "REPLICATION") }, nil,
			exitPerson, "walrelay: ", "walrelay init --sql"},
		{"other table", []string{strings.Replace(outbox, "outbox", "events", 1)}, nil, nil,
			exitPerson, "walrelay: outbox table public.outbox does not exist", "public.events"},
		{"table without the columns", []string{`CREATE TABLE outbox (id int, body text)`}, nil, nil,
			exitPerson, "walrelay: the outbox table does not fit its mapping: ", "no column \"aggregateid\"; the table has id, body"},
		{"unlogged table", []string{strings.Replace(outbox, "TABLE", "UNLOGGED TABLE", 1)}, nil, nil,
			exitPerson, "walrelay: table public.outbox is unlogged", "SET LOGGED"},
		{"view", []string{`CREATE VIEW outbox AS SELECT 1 AS id`}, nil, nil,
			exitPerson, "walrelay: public.outbox is not a table", "name the table"},
		{"slot of another plugin", []string{outbox, `SELECT pg_create_logical_replication_slot('of_another', 'test_decoding')`}, nil, []string{"--slot", "of_another"},
			exitPerson, "walrelay: slot of_another uses the plugin test_decoding", "postgres.slot"},
		{"name in quotes", nil, nil, []string{"--table", `public."Out"`},
			exitConfiguration, "walrelay: configuration: tables[0] = ", "want schema.table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := server.Database(t)
			pgtest.Exec(t, url, c.sql...)
			if c.url != nil {
				url = c.url(t, url)
			}
			got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=" + url}, append([]string{"init"}, c.args...)...)
			if got.code != c.code || !oneLineWith(got.err, c.begin, c.remedy) || strings.Contains(got.err, "secret") {
				t.Errorf("code %d, %s%s", got.code, got.out, got.err)
			}
		})
	}
}

func TestInitWALLevel(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_level": "replica"}})
	for _, command := range []string{"init", "run"} {
		got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=" + server.URL("postgres"), "WALRELAY_KAFKA_BROKERS=127.0.0.1:1", "WALRELAY_HTTP_LISTEN=off", "WALRELAY_LOG_LEVEL=error"}, command)
		if got.code != exitPerson || !oneLineWith(got.err, "walrelay: wal_level is replica, logical decoding needs logical", "ALTER SYSTEM SET wal_level = logical") {
			t.Errorf("%s: code %d, %s%s", command, got.code, got.out, got.err)
		}
	}
}

func TestUnknownKeyInFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "walrelay.yaml")
	if err := os.WriteFile(file, []byte("postgres:\n  url: postgres://u:secret@h/db\n  solt: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := walrelay(t, nil, "init", "--config", file)
	if got.code != exitConfiguration || got.err != "walrelay: configuration: postgres.solt (walrelay.yaml:3): no such key; did you mean postgres.slot?\n" {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

// statements splits a script as psql does, as far as ours goes: at a semicolon at the end of a line, outside of $walrelay$.
func statements(script string) []string {
	var list []string
	var open string
	for part := range strings.SplitAfterSeq(script, ";\n") {
		open += part
		if strings.Count(open, "$walrelay$")%2 == 0 {
			list, open = append(list, open), ""
		}
	}
	return list
}
