package e2e

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// outboxSQL is the table of Debezium's documentation, which an application has already.
const outboxSQL = `CREATE TABLE public.outbox (
	id            uuid         PRIMARY KEY,
	aggregatetype varchar(255) NOT NULL,
	aggregateid   varchar(255) NOT NULL,
	type          varchar(255) NOT NULL,
	payload       jsonb
)`

// connect opens a connection for the length of the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
	return conn
}

// query scans one row.
func query(t *testing.T, conn *pgx.Conn, sql string, into ...any) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
