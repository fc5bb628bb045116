package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/router"
)

const outboxSQL = `CREATE TABLE outbox (id bigint, aggregatetype text, aggregateid text, type text, payload text)`

// outbox is that table. Its columns have the oids of bigint and text.
func outbox(more ...decoder.RelationColumn) *Table {
	columns := []decoder.RelationColumn{{Name: "id", Type: oidInt8}}
	for _, name := range []string{"aggregatetype", "aggregateid", "type", "payload"} {
		columns = append(columns, decoder.RelationColumn{Name: name, Type: 25})
	}
	return &Table{Relation: &decoder.Relation{Namespace: "public", Name: "outbox", Columns: append(columns, more...)}}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// ids are the ids of the selected rows, in their order if sorted.
func ids(t *testing.T, conn *pgx.Conn, table *Table, s Selection, sorted bool) (list []string, by rank) {
	t.Helper()
	err := pgx.BeginTxFunc(t.Context(), conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		candidates, err := s.Horizon.candidates(t.Context(), tx)
		if err != nil {
			return err
		}
		where, err := s.where(table, candidates)
		if err != nil {
			return err
		}
		if by, err = rankOf(t.Context(), tx, table, where); err != nil {
			return err
		}
		return table.read(t.Context(), tx, where, by, sorted, func(row *decoder.Row, _ standing) error {
			list = append(list, string(row.Columns[0].Data))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if !sorted {
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }) // numbers
	}
	return list, by
}

// horizon is the oldest transaction that runs.
func horizon(t *testing.T, conn *pgx.Conn) Horizon {
	t.Helper()
	var text string
	if err := conn.QueryRow(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot())::text`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	xid, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return Horizon{XID: xid}
}

// A candidate is every row whose transaction had not ended when the horizon was taken, however long ago it began, and
// whether a savepoint or vacuum has been at it.
func TestCandidates(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		pgtest.Exec(t, url, outboxSQL, `INSERT INTO outbox VALUES (1), (2)`, `VACUUM FREEZE outbox`, `INSERT INTO outbox VALUES (3)`)
		long, conn := connect(t, url), connect(t, url)
		exec(t, long, `BEGIN`, `INSERT INTO outbox VALUES (4)`, `SAVEPOINT s`, `INSERT INTO outbox VALUES (5)`)
		pgtest.Exec(t, url, `INSERT INTO outbox VALUES (6)`)
		at := horizon(t, conn) // of the long transaction
		exec(t, long, `SAVEPOINT t`, `INSERT INTO outbox VALUES (7)`, `COMMIT`)
		pgtest.Exec(t, url, `INSERT INTO outbox VALUES (8)`, `UPDATE outbox SET payload = 'x' WHERE id = 1`)

		if got, _ := ids(t, conn, outbox(), Selection{Horizon: at}, false); !gocmp.Equal(got, []string{"1", "4", "5", "6", "7", "8"}) {
			t.Errorf("candidates %v, want all but 2 and 3", got)
		}
		all := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
		for name, h := range map[string]Horizon{
			"unknown":            {},
			"of another history": {XID: at.XID + 1<<20},
			"of another epoch":   {XID: at.XID + 1<<32},
		} {
			if got, _ := ids(t, conn, outbox(), Selection{Horizon: h}, false); !gocmp.Equal(got, all) {
				t.Errorf("horizon %s: candidates %v, want all", name, got)
			}
		}
		pgtest.Exec(t, url, `VACUUM FREEZE outbox`)
		if got, _ := ids(t, conn, outbox(), Selection{Horizon: horizon(t, conn)}, false); len(got) > 0 {
			t.Errorf("nothing is running, and the candidates are %v", got)
		}
	})
}

func exec(t *testing.T, conn *pgx.Conn, sql ...string) {
	t.Helper()
	for _, statement := range sql {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSelections(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, outboxSQL, `INSERT INTO outbox SELECT i, CASE WHEN i % 2 = 0 THEN 'even' END FROM generate_series(1, 12) i`,
		`UPDATE outbox SET type = CASE id % 6 WHEN 0 THEN 'Paid' WHEN 3 THEN 'it''s' END`,
		`ALTER TABLE outbox ADD created_at timestamptz`, `UPDATE outbox SET created_at = timestamptz '2025-12-31 00:00:00Z' + id * interval '1 day'`,
		`CREATE TABLE child () INHERITS (outbox)`, `INSERT INTO child VALUES (100)`,
		`CREATE TABLE parts (LIKE outbox) PARTITION BY RANGE (id)`, `CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (5)`,
		`INSERT INTO parts VALUES (1), (2)`)
	conn := connect(t, url)
	filtered := outbox()
	filtered.Filter = "aggregatetype = 'even' OR false"
	parts := outbox()
	parts.Relation.Name, parts.Partitioned = "parts", true
	timed := outbox(decoder.RelationColumn{Name: "created_at", Type: oidTimestampt})
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		name  string
		table *Table
		s     Selection
		want  string
	}{
		{"all, and nothing of tables that inherit", outbox(), Selection{}, "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"row filter of the publication", filtered, Selection{FirstID: "3"}, "4 6 8 10 12"},
		{"range of numbers", outbox(), Selection{FirstID: "9", LastID: "10"}, "9 10"},
		{"up to", outbox(), Selection{LastID: "2"}, "1 2"},
		{"partitions", parts, Selection{}, "1 2"},
		{"ids, one of which can be none of this table", outbox(), Selection{IDs: []string{"3", "'x'", "7", "99"}}, "3 7"},
		{"ids that can be none", outbox(), Selection{IDs: []string{"x"}}, ""},
		{"types", outbox(), Selection{Types: []string{"Paid", "it's"}}, "3 6 9 12"},
		{"types in a range", outbox(), Selection{Types: []string{"Paid"}, FirstID: "4", LastID: "11"}, "6"},
		{"since", timed, Selection{Since: day(11)}, "11 12"},
		{"until", timed, Selection{Until: day(2)}, "1 2"},
		{"since and until", timed, Selection{Since: day(5), Until: day(6), IDs: []string{"6", "7"}}, "6"},
	} {
		if got, _ := ids(t, conn, test.table, test.s, false); strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.name, got, test.want)
		}
	}
	untyped := outbox()
	untyped.Route.Columns.Type = "kind"
	if _, err := (Selection{Types: []string{"t"}}).where(untyped, ""); err == nil || !strings.Contains(err.Error(), "no column kind") {
		t.Errorf("types, without such a column: %v", err)
	}
	if _, err := (Selection{Since: time.Now()}).where(outbox(), ""); err == nil || !strings.Contains(err.Error(), "created_at") {
		t.Errorf("since, without a time in the table: %v", err)
	}
}

// Rows are put into order by what the table has: commit time, else a number, else a UUID with a time, else created_at.
func TestRank(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"track_commit_timestamp": "on"}})
	plain := pgtest.Shared(t, "").Database(t)
	created := decoder.RelationColumn{Name: "created_at", Type: oidTimestampt}
	uuids := outbox(created)
	uuids.Relation.Columns[0].Type = oidUUID
	v7 := func(n int) string { return fmt.Sprintf("019abcde-0000-7000-8000-0000000000%02d", n) }
	for _, test := range []struct {
		name  string
		url   string
		table *Table
		sql   []string
		want  string
		by    rankBy
	}{
		{"commit", s.Database(t), outbox(), []string{outboxSQL, `INSERT INTO outbox VALUES (3)`, `INSERT INTO outbox VALUES (1), (0)`, `INSERT INTO outbox VALUES (2)`}, "3 0 1 2", byCommit},
		{"number", plain, outbox(), []string{outboxSQL, `INSERT INTO outbox VALUES (10), (9), (-1)`}, "-1 9 10", byNumber},
		{"uuid with a time", pgtest.Shared(t, "").Database(t), uuids, []string{
			strings.Replace(outboxSQL, "bigint", "uuid", 1), `ALTER TABLE outbox ADD created_at timestamptz DEFAULT now()`,
			`INSERT INTO outbox VALUES ('` + v7(2) + `'), ('` + strings.Replace(v7(1), "cde", "cdd", 1) + `')`},
			strings.Replace(v7(1), "cde", "cdd", 1) + " " + v7(2), byUUID},
		{"created_at", pgtest.Shared(t, "").Database(t), uuids, []string{
			strings.Replace(outboxSQL, "bigint", "uuid", 1), `ALTER TABLE outbox ADD created_at timestamptz`,
			`INSERT INTO outbox (id, created_at) VALUES ('00000000-0000-4000-8000-000000000001', 'infinity'),
				('00000000-0000-4000-8000-000000000002', '2026-01-02'), ('00000000-0000-4000-8000-000000000003', '2026-01-01')`},
			"00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000003 00000000-0000-4000-8000-000000000002", byCreated},
		{"nothing: as they were written", pgtest.Shared(t, "").Database(t), func() *Table {
			table := outbox()
			table.Relation.Columns[0].Type = 25
			return table
		}(), []string{strings.Replace(outboxSQL, "bigint", "text", 1), `INSERT INTO outbox VALUES ('b'), ('a')`}, "b a", byNothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			pgtest.Exec(t, test.url, test.sql...)
			got, by := ids(t, connect(t, test.url), test.table, Selection{}, true)
			if strings.Join(got, " ") != test.want || by.by != test.by {
				t.Errorf("by %d: %v, want by %d: %s", by.by, got, test.by, test.want)
			}
		})
	}
}

// A mapping with a time column of its own is put into order by that.
func TestRankByTheMappingsTime(t *testing.T) {
	t.Parallel()
	table := outbox(decoder.RelationColumn{Name: "at", Type: oidInt8}, decoder.RelationColumn{Name: "created_at", Type: oidTimestampt})
	table.Route = router.Config{Columns: router.Columns{Timestamp: "at"}}
	if got := table.created("at"); got != "at" || table.micros(got) != `("at" * 1000)` {
		t.Errorf("column %s: %s", got, table.micros(got))
	}
	if got := table.created(""); got != "created_at" {
		t.Errorf("column %s", got)
	}
}
