package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// Events are printed as they commit, in commit order, and the relay's slot stands where it stood.
func TestTail(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url}
	if got := walrelay(t, environ, "tail"); got.code != exitPerson || !oneLineWith(got.err, "walrelay: publication walrelay_test_", "run walrelay init") {
		t.Errorf("before init: code %d, %s", got.code, got.err)
	}
	if got := walrelay(t, environ, "init"); got.code != exitStopped {
		t.Fatal(got.err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	slots := func() (text string) {
		if err := conn.QueryRow(t.Context(), `SELECT string_agg(slot_name || ' ' || confirmed_flush_lsn, ', ') FROM pg_replication_slots
			WHERE database = current_database() AND NOT temporary`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := slots()
	for _, format := range []string{"--json=false", "--json"} {
		cmd, output := child(t.Context(), environ, "tail", "-n", "3", format)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "tail is ready", func() bool { return strings.Contains(output.String(), "from now on") })
		late, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		insert := `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('%s', '%s', 't', '%s')`
		if _, err := late.Exec(t.Context(), fmt.Sprintf(insert, "order", "late", `{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, url, fmt.Sprintf(insert, "order", "early", `"`+strings.Repeat("x", 300)+`"`), "BEGIN; "+fmt.Sprintf(insert, "order", "undone", "1")+"; ROLLBACK",
			fmt.Sprintf(insert, "not a topic", "bad", "1"))
		if err := late.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		lines := strings.Split(strings.TrimSpace(output.String()), "\n")[1:]
		if len(lines) != 3 {
			t.Fatalf("%s: %s", format, output)
		}
		for i, want := range [][]string{{"outbox.event.order", "early", "walrelay.lsn"}, {"not a topic"}, {"outbox.event.order", "late"}} {
			for _, part := range want {
				if !strings.Contains(lines[i], part) {
					t.Errorf("%s, line %d has no %s: %s", format, i, part, lines[i])
				}
			}
			if format == "--json" && !json.Valid([]byte(lines[i])) {
				t.Errorf("not JSON: %s", lines[i])
			}
		}
	}
	if after := slots(); after != before {
		t.Errorf("the slot was at %s, and is at %s", before, after)
	}
}
