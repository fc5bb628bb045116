package main

import (
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// A consumer's database gets walrelay's functions and nothing else, by the command or by its script.
func TestInitSchemaOnly(t *testing.T) {
	t.Parallel()
	const functions = `SELECT walrelay.consumed('c', 'e')`
	const nothingElse = `DO $$ BEGIN ASSERT (SELECT count(*) FROM pg_publication) = 0 AND to_regclass('outbox') IS NULL
		AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database()); END $$`

	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url}
	if got := walrelay(t, environ, "init", "--schema-only"); got.code != exitStopped || !strings.HasPrefix(got.out, "+ schema walrelay") {
		t.Errorf("code %d, %s%s", got.code, got.out, got.err)
	}
	pgtest.Exec(t, url, functions, nothingElse)

	script := walrelay(t, environ, "init", "--schema-only", "--sql")
	byScript := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, byScript, script.out, functions, nothingElse)
	if got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=" + byScript}, "init", "--schema-only"); got.code != exitStopped || !strings.Contains(got.out, ": there") {
		t.Errorf("after the script: code %d, %s%s", got.code, got.out, got.err)
	}
	if got := walrelay(t, environ, "init", "--schema-only", "--existing=skip"); got.code != exitConfiguration {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}
