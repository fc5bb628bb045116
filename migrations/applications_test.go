package migrations_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

// walrelay.publish writes a row that the relay takes for an event, whatever the types of the table's columns.
func TestPublish(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		apply(t, url)
		pgtest.Exec(t, url, migrations.OutboxSQL("public", "outbox"), `CREATE SCHEMA "My shop"`,
			`CREATE TABLE "My shop"."Out box" (id varchar(36), aggregate_type varchar(5), aggregate_id bigint, event_type text, payload bytea, headers json)`,
			`CREATE TABLE other (id uuid, type text)`)
		conn := connect(t, url)
		var drawn, given string
		if err := conn.QueryRow(t.Context(), `SELECT walrelay.publish('order', 'k', 'Created', '{"a": "é"}')`).Scan(&drawn); err != nil {
			t.Fatal(err)
		}
		err := conn.QueryRow(t.Context(), `SELECT walrelay.publish('order', '7', 'Created', '{"a": 1}', headers => '{"tenant": "t1"}',
			id => '0f8fad5b-d9cb-469f-a165-70867728950e', outbox => '"My shop"."Out box"')`).Scan(&given)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{drawn + `|order|k|Created|{"a": "é"}`, given + `|order|7|Created|{"a": 1}|{"tenant": "t1"}`}
		rows, err := conn.Query(t.Context(), `SELECT concat_ws('|', id, aggregatetype, aggregateid, type, payload::text) FROM outbox
			UNION ALL SELECT concat_ws('|', id, aggregate_type, aggregate_id, event_type, convert_from(payload, 'UTF8'), headers::text) FROM "My shop"."Out box"`)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for call, want := range map[string]string{
			`NULL, 'k', 't', '{}'`:                                         "must not be null",
			`'o', 'k', 't', '{}', headers => '[]'`:                         "JSON object",
			`'o', 'k', 't', '{}', headers => '{}'`:                         "has no column headers",
			`'o', 'k', 't', '{}', outbox => 'other'`:                       "has neither id, aggregatetype",
			`'o', 'k', 't', '{}', outbox => 'absent'`:                      "does not exist",
			`'orders', '7', 't', '{}', outbox => '"My shop"."Out box"'`:    "too long",
			`'order', 'seven', 't', '{}', outbox => '"My shop"."Out box"'`: "invalid input syntax",
		} {
			if _, err := conn.Exec(t.Context(), `SELECT walrelay.publish(`+call+`)`); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", call, err, want)
			}
		}
	})
}

// Of two that consume the same event at the same time one waits, and goes first only if the other rolls back.
func TestConsumed(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		apply(t, url)
		consumed := func(conn *pgx.Conn, consumer, event string) (first bool) {
			t.Helper()
			if err := conn.QueryRow(t.Context(), `SELECT walrelay.consumed($1, $2)`, consumer, event).Scan(&first); err != nil {
				t.Fatal(err)
			}
			return first
		}
		one, two, watch := connect(t, url), connect(t, url), connect(t, url)
		for i, end := range []string{"ROLLBACK", "COMMIT"} {
			event := fmt.Sprint("event ", i)
			pgtest.Exec(t, url, `SELECT walrelay.consumed('other', '`+event+`')`)
			exec(t, one, "BEGIN")
			if !consumed(one, "billing", event) || consumed(one, "billing", event) {
				t.Fatal("want true the first time, false the second")
			}
			second := make(chan bool, 1)
			go func() { second <- consumed(two, "billing", event) }()
			await(t, watch, `SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
			exec(t, one, end)
			if got, want := <-second, end == "ROLLBACK"; got != want {
				t.Errorf("after the other's %s: got %v", end, got)
			}
		}
		if _, err := one.Exec(t.Context(), `SELECT walrelay.consumed(NULL, 'e')`); err == nil || !strings.Contains(err.Error(), "walrelay.consumed: ") {
			t.Error(err)
		}
	})
}

// The grants that walrelay init --sql prints are enough, and without them nothing can be marked as consumed.
func TestApplicationGrants(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	apply(t, url)
	pgtest.Exec(t, url, migrations.OutboxSQL("public", "outbox"))
	roleURL := asRole(t, url)
	role := config(t, roleURL).User
	t.Cleanup(func() { pgtest.Exec(t, url, `DROP OWNED BY `+role) })
	conn := connect(t, roleURL)
	calls := []string{`SELECT walrelay.consumed('c', 'e')`, `SELECT walrelay.publish('o', 'k', 't', '{}')`, `SELECT walrelay.emit('o', 'k', 't', '{}')`}
	for i, grant := range []string{"", `GRANT USAGE ON SCHEMA walrelay TO ` + role} {
		if grant != "" {
			pgtest.Exec(t, url, grant)
		}
		for _, call := range calls[:3-i] { // with USAGE, emit may be called by anybody
			if _, err := conn.Exec(t.Context(), call); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s after %q: %v", call, grant, err)
			}
		}
	}
	pgtest.Exec(t, url, `GRANT SELECT, INSERT, UPDATE, DELETE ON walrelay.processed_events, walrelay.processed_positions TO `+role,
		`GRANT INSERT ON outbox TO `+role)
	for _, call := range calls {
		exec(t, conn, call)
	}
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// await polls a condition.
func await(t *testing.T, conn *pgx.Conn, condition string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for done := false; !done; time.Sleep(5 * time.Millisecond) {
		if err := conn.QueryRow(t.Context(), condition).Scan(&done); err != nil || time.Now().After(deadline) {
			t.Fatalf("%s: %v", condition, err)
		}
	}
}
