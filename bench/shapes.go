package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	insertCPU  = "insert_cpu_us"
	insertWAL  = "insert_wal_bytes"
	tableBytes = "table_bytes_per_row"
)

var shapeColumns = []column{
	{"backend CPU µs", insertCPU, ""}, {"WAL B", insertWAL, ""}, {"table and index B", tableBytes, ""}, {"other s", otherCPU, ""},
}

// shape is a form that an outbox may have. insert writes the row number n; its payload is jsonb but in messages.
type shape struct{ name, schema, insert string }

const shapeRest = `aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb, created_at timestamptz NOT NULL DEFAULT now()`

const shapeValues = `'order', 'key-' || n % 10000, 'OrderPlaced', payload(n)`

var outboxShapes = []shape{
	{"uuid v4", `CREATE TABLE shaped (id uuid PRIMARY KEY, ` + shapeRest + `)`,
		`INSERT INTO shaped VALUES (gen_random_uuid(), ` + shapeValues + `)`},
	{"uuid v7", `CREATE TABLE shaped (id uuid PRIMARY KEY, ` + shapeRest + `)`,
		`INSERT INTO shaped VALUES (ordered_uuid(n), ` + shapeValues + `)`},
	{"bigint identity", `CREATE TABLE shaped (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ` + shapeRest + `)`,
		`INSERT INTO shaped (aggregatetype, aggregateid, type, payload) VALUES (` + shapeValues + `)`},
	{"uuid v7, partitioned by day", `CREATE TABLE shaped (id uuid, ` + shapeRest + `, PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at);
		CREATE TABLE shaped_1 PARTITION OF shaped FOR VALUES FROM ('-infinity') TO ('2020-01-01');
		CREATE TABLE shaped_2 PARTITION OF shaped FOR VALUES FROM ('2020-01-01') TO ('infinity')`,
		`INSERT INTO shaped VALUES (ordered_uuid(n), ` + shapeValues + `)`},
	{"polled: bigint, index of unpublished, UPDATE afterwards",
		`CREATE TABLE shaped (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ` + shapeRest + `, published_at timestamptz);
		CREATE INDEX ON shaped (id) WHERE published_at IS NULL`,
		`INSERT INTO shaped (aggregatetype, aggregateid, type, payload) VALUES (` + shapeValues + `);
		UPDATE shaped SET published_at = now() WHERE id = n`},
	{"message, no table", `CREATE TABLE shaped ()`,
		`PERFORM pg_logical_emit_message(true, 'walrelay', jsonb_build_object('id', gen_random_uuid(), 'aggregatetype', 'order',
			'aggregateid', 'key-' || n % 10000, 'type', 'OrderPlaced', 'payload', payload(n))::text)`},
}

// shapes inserts rows, one in a transaction, behind rows that are there already and behind a checkpoint, after which the
// first change of each page writes all of it into the log.
func shapes(ctx context.Context, s *stage, o Options, section *Section) error {
	standing, rows := o.scaled(500_000), o.scaled(100_000)
	for range o.Runs {
		for _, shape := range outboxShapes {
			f, err := s.undisturbed("1 row/tx", shape.name, shapeColumns, func() (figures, error) {
				return s.insertInto(ctx, shape, standing, rows)
			})
			if err != nil {
				return err
			}
			section.add("1 row/tx", shape.name, f)
		}
	}
	return nil
}

func (s *stage) insertInto(ctx context.Context, shape shape, standing, rows int) (figures, error) {
	database, err := s.database(ctx, workload{})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.server.url(database))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	setup := fmt.Sprintf(`
CREATE FUNCTION ordered_uuid(n bigint) RETURNS uuid LANGUAGE sql AS $$
    SELECT encode(substring(int8send(1700000000000 + n) FROM 3) || '\x7000'::bytea || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid
$$;
%s;
CREATE PROCEDURE fill(low bigint, high bigint, per_tx bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN low .. high LOOP
        %s;
        IF n %% per_tx = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END $$;
SET synchronous_commit = off;`, shape.schema, shape.insert)
	for _, sql := range []string{setup, fmt.Sprintf(`CALL fill(1, %d, 1000)`, standing), `CHECKPOINT`} {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("%.100s: %w", sql, err)
		}
	}
	return s.filled(ctx, conn, fmt.Sprintf(`CALL fill(%d, %d, 1)`, standing+1, standing+rows), rows, standing+rows)
}

// filled measures one statement that inserts rows.
func (s *stage) filled(ctx context.Context, conn *pgx.Conn, sql string, rows, total int) (figures, error) {
	pid := int(conn.PgConn().PID())
	wal0, err := s.written(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	cpu0, err := preciseCPU(pid)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	f := figures{seconds: time.Since(started).Seconds()}
	cpu1, err := preciseCPU(pid)
	if err != nil {
		return nil, err
	}
	after, err := s.used()
	if err != nil {
		return nil, err
	}
	wal1, err := s.written(ctx)
	if err != nil {
		return nil, err
	}
	var size int64
	err = conn.QueryRow(ctx, `SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relname LIKE 'shaped%' AND relkind = 'r'`).Scan(&size)
	f[insertCPU], f[insertWAL] = (cpu1-cpu0)*1e6/float64(rows), float64(wal1-wal0)/float64(rows)
	f[tableBytes], f[otherCPU] = float64(size)/float64(total), after.other(before, 0)
	return f, err
}
