package prune_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
	"github.com/walrelay/walrelay/prune"
)

// BenchmarkCost is what an event costs the primary from its INSERT until it is gone, in the ways that are in use: bytes of
// log, and bytes of the table and its indexes at the end, without a vacuum.
func BenchmarkCost(b *testing.B) {
	const rows = 50_000
	const write = `INSERT INTO outbox (aggregatetype, aggregateid, type, payload, created_at)
		SELECT 'order', 'k' || n, 'OrderCreated', jsonb_build_object('n', n, 'remark', repeat(md5(n::text), 9)), now() - interval '9 days' FROM generate_series(%d, %d) n`
	writeAll := func(c *cost) {
		c.each(rows, func(from, to int) string { return fmt.Sprintf(write, from, to) })
	}
	for name, way := range map[string]func(*cost){
		"prune": func(c *cost) {
			writeAll(c)
			c.prune()
		},
		"drop partition": func(c *cost) {
			c.exec(`DROP TABLE outbox`, `CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload jsonb,
				created_at timestamptz, PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at)`,
				`CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('`+c.tomorrow()+`')`)
			writeAll(c)
			c.exec(`UPDATE walrelay.checkpoint SET horizon = pg_current_xact_id()`)
			c.exec(`ALTER TABLE outbox DETACH PARTITION outbox_old CONCURRENTLY`)
			c.exec(`DROP TABLE outbox_old`)
		},
		"insert and delete in one transaction": func(c *cost) {
			c.each(rows, func(from, to int) string {
				return "BEGIN; " + fmt.Sprintf(write, from, to) + "; DELETE FROM outbox; COMMIT"
			})
		},
		"polling relay, then delete": func(c *cost) {
			c.exec(`ALTER TABLE outbox ADD published_at timestamptz`, `CREATE INDEX ON outbox (created_at) WHERE published_at IS NULL`)
			writeAll(c)
			c.each(rows, func(int, int) string {
				return `WITH batch AS (SELECT id FROM outbox WHERE published_at IS NULL ORDER BY created_at LIMIT 100 FOR UPDATE SKIP LOCKED)
					UPDATE outbox o SET published_at = now() FROM batch WHERE o.id = batch.id`
			})
			c.exec(`DELETE FROM outbox`)
		},
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				c := newCost(b)
				begin := c.log()
				way(c)
				b.ReportMetric(float64(c.log()-begin)/rows, "WAL-B/event")
				b.ReportMetric(float64(c.size())/rows, "left-B/event")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cost is one run of BenchmarkCost.
type cost struct {
	b    *testing.B
	url  string
	conn *pgx.Conn
}

func newCost(b *testing.B) *cost {
	b.Helper()
	c := &cost{b: b, url: pgtest.Start(b, pgtest.Options{Settings: map[string]string{"autovacuum": "off"}}).URL("postgres")}
	config, err := pgx.ParseConfig(c.url)
	if err == nil {
		err = migrations.Apply(b.Context(), config)
	}
	if err == nil {
		c.conn, err = pgx.ConnectConfig(b.Context(), config)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.conn.Close(context.Background()) })
	c.exec(migrations.OutboxSQL("public", "outbox"), row("'3'", "", ""), `CHECKPOINT`)
	return c
}

// each runs a statement for every hundred rows, each in a transaction of its own.
func (c *cost) each(rows int, statement func(from, to int) string) {
	c.b.Helper()
	for from := 1; from <= rows; from += 100 {
		c.exec(statement(from, from+99))
	}
}

func (c *cost) exec(statements ...string) {
	c.b.Helper()
	for _, statement := range statements {
		if _, err := c.conn.PgConn().Exec(c.b.Context(), statement).ReadAll(); err != nil {
			c.b.Fatalf("%s: %v", statement, err)
		}
	}
}

func (c *cost) prune() {
	c.b.Helper()
	c.exec(`UPDATE walrelay.checkpoint SET horizon = pg_current_xact_id()`)
	err := prune.Run(c.b.Context(), c.conn.Config(), prune.Options{Slot: "s", Tables: []string{"public.outbox"}, OlderThan: day})
	if err != nil {
		c.b.Fatal(err)
	}
}

func (c *cost) log() int64 {
	return c.number(`SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`)
}

func (c *cost) size() int64 {
	return c.number(`SELECT pg_total_relation_size('outbox') + coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('outbox')), 0)::bigint`)
}

func (c *cost) number(query string) (n int64) {
	c.b.Helper()
	if err := c.conn.QueryRow(c.b.Context(), query).Scan(&n); err != nil {
		c.b.Fatal(err)
	}
	return n
}

func (c *cost) tomorrow() (day string) {
	c.b.Helper()
	if err := c.conn.QueryRow(c.b.Context(), `SELECT (current_date + 1)::text`).Scan(&day); err != nil {
		c.b.Fatal(err)
	}
	return day
}
