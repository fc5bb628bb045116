package migrations_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestApplyTwiceIsApplyOnce(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		conn := connect(t, url)

		if !pending(t, conn) {
			t.Fatal("an empty database has nothing pending")
		}
		apply(t, url)
		if pending(t, conn) {
			t.Fatal("still pending after Apply")
		}
		before := describe(t, conn)
		apply(t, url)
		if diff := cmp.Diff(before, describe(t, conn)); diff != "" {
			t.Errorf("the second Apply changed something (-before +after):\n%s", diff)
		}
	})
}

func TestScriptEqualsApply(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		applied, scripted := s.Database(t), s.Database(t)
		apply(t, applied)
		script, err := migrations.SQL()
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, scripted, script)

		conn := connect(t, scripted)
		want := describe(t, connect(t, applied))
		if len(want) < 20 { // both tables with their columns, comments and keys
			t.Fatalf("the description misses something:\n%s", strings.Join(want, "\n"))
		}
		if diff := cmp.Diff(want, describe(t, conn)); diff != "" {
			t.Errorf("script and Apply differ (-apply +script):\n%s", diff)
		}
		if pending(t, conn) {
			t.Error("Apply would do something after the script")
		}
	})
}

// Every relay of a fresh deployment may come at the same moment: here all have seen that the schema is absent, and are
// held back by a transaction that then rolls back.
func TestApplyAtTheSameTime(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	gate, watch := connect(t, url), connect(t, url)
	if _, err := gate.Exec(t.Context(), `BEGIN; CREATE SCHEMA walrelay`); err != nil {
		t.Fatal(err)
	}
	const relays = 4
	var group errgroup.Group
	for range relays {
		group.Go(func() error { return migrations.Apply(context.Background(), config(t, url)) })
	}
	deadline := time.Now().Add(20 * time.Second)
	for waiting := 0; waiting < relays; {
		err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d of %d wait, %v", waiting, relays, err)
		}
	}
	if _, err := gate.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if pending(t, watch) {
		t.Error("still pending")
	}
}

func TestApplyWithoutPrivilege(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	role := asRole(t, url)
	if err := migrations.Apply(t.Context(), config(t, role)); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Fatalf("a role without CREATE on the database: got %v, want 42501", err)
	}
}

// A database that a newer walrelay has migrated is fine for an older one.
func TestNewerDatabaseHasNothingPending(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	apply(t, url)
	pgtest.Exec(t, url, `INSERT INTO walrelay.schema_version (version_id, is_applied) VALUES (9999, true)`)
	if pending(t, connect(t, url)) {
		t.Error("a newer version counts as pending")
	}
}

func TestOutboxSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	conn := connect(t, url)
	for _, name := range []struct{ schema, table string }{
		{"public", "outbox"}, {"public", "Out.box"}, {"public", `a "quoted" one`}, {"public", "ausgänge"},
	} {
		pgtest.Exec(t, url, migrations.OutboxSQL(name.schema, name.table))
		table := pgx.Identifier{name.schema, name.table}.Sanitize()
		var id, created string
		err := conn.QueryRow(t.Context(), `INSERT INTO `+table+` (aggregatetype, aggregateid, type, payload)
			VALUES ('order', '1', 'OrderCreated', '{"a": 1}') RETURNING id::text, created_at::text`).Scan(&id, &created)
		if err != nil || id == "" || created == "" {
			t.Errorf("%s: insert gave id %q, created_at %q, %v", table, id, created, err)
		}
	}
}

// describe lists everything of the schema that a person could see a difference in.
func describe(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT format('column %s.%s %s %s %s: %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
		              a.attnotnull, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum))
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
		LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = 'walrelay'::regnamespace AND c.relkind = 'r'
		UNION ALL
		SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE connamespace = 'walrelay'::regnamespace
		UNION ALL
		SELECT format('relation %s %s: %s', relname, relkind, obj_description(oid, 'pg_class'))
		FROM pg_class WHERE relnamespace = 'walrelay'::regnamespace
		UNION ALL
		SELECT format('function %s: %s', obj_description(oid, 'pg_proc'), pg_get_functiondef(oid))
		FROM pg_proc WHERE pronamespace = 'walrelay'::regnamespace
		UNION ALL
		SELECT format('version %s %s %s', id, version_id, is_applied) FROM walrelay.schema_version
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func config(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config(t, url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func apply(t *testing.T, url string) {
	t.Helper()
	if err := migrations.Apply(t.Context(), config(t, url)); err != nil {
		t.Fatal(err)
	}
}

func pending(t *testing.T, conn *pgx.Conn) bool {
	t.Helper()
	yes, err := migrations.Pending(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// asRole is the URL for a new role without any privilege.
func asRole(t *testing.T, url string) string {
	t.Helper()
	name := "plain_" + strings.ToLower(rand.Text()[:12])
	pgtest.Exec(t, url, `CREATE ROLE `+name+` LOGIN`)
	t.Cleanup(func() { pgtest.Exec(t, url, `DROP ROLE `+name) })
	return strings.Replace(url, "postgres://postgres@", "postgres://"+name+"@", 1)
}
