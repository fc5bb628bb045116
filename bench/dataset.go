package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	publication = "walrelay_bench"
	keys        = 10_000
)

// schema is the outbox that walrelay init makes, and what fills it. The payload has 300 to 310 bytes as text; its seq
// numbers the rows from 1 on, and a row's key is seq modulo the number of keys.
var schema = fmt.Sprintf(`
CREATE TABLE outbox (
    id            uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text        NOT NULL,
    aggregateid   text        NOT NULL,
    type          text        NOT NULL,
    payload       jsonb,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE PUBLICATION %[1]s FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true);

CREATE FUNCTION payload(seq bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('seq', seq, 'order', 'order-' || seq, 'customer', 'customer-' || seq %% 9999, 'status', 'placed',
        'currency', 'EUR', 'total', seq %% 100000 / 100.0, 'lines', jsonb_build_array(
            jsonb_build_object('sku', 'SKU-' || seq %% 5000, 'count', 1 + seq %% 7, 'price', seq %% 9999 / 100.0),
            jsonb_build_object('sku', 'SKU-' || seq %% 777, 'count', 2, 'price', 12.5)),
        'remark', 'leave it with the neighbours, please')
$$;

CREATE PROCEDURE place(low bigint, high bigint) LANGUAGE sql AS $$
    INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
    SELECT '%[2]s', 'key-' || seq %% %[3]d, 'OrderPlaced', payload(seq) FROM generate_series(low, high) seq
$$;

CREATE PROCEDURE load(total bigint, per_tx bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOR low IN 1 .. total BY per_tx LOOP
        CALL place(low, least(low + per_tx - 1, total));
        COMMIT;
    END LOOP;
END $$;`, publication, aggregate, keys)

// dataset is an outbox full of rows in a database of its own, and a slot from before they were inserted. Each run reads
// through a copy of that slot, so all read the very same WAL.
type dataset struct {
	server   *postgres
	database string
	rows     int
	perTx    int
	end      string // position behind the last commit
}

const baseSlot = "bench_base"

// load makes a dataset. A run reads on from its last row to the end of the log, so datasets are loaded and used one after
// the other.
func load(ctx context.Context, server *postgres, rows, perTx int) (*dataset, error) {
	d := &dataset{server: server, database: fmt.Sprintf("rows_%d", perTx), rows: rows, perTx: perTx}
	if err := createDatabase(ctx, server, d.database); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	steps := []string{
		fmt.Sprintf(`SELECT pg_create_logical_replication_slot('%s', 'pgoutput')`, baseSlot),
		`SET synchronous_commit = off`, // of the load alone
		fmt.Sprintf(`CALL load(%d, %d)`, rows, perTx),
		`CHECKPOINT`, // so that none is under way during a run
	}
	for _, sql := range steps {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("load %d rows: %s: %w", rows, sql, err)
		}
	}
	if err := conn.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&d.end); err != nil {
		return nil, fmt.Errorf("load %d rows: %w", rows, err)
	}
	return d, nil
}

// createDatabase makes a database with an empty outbox.
func createDatabase(ctx context.Context, server *postgres, name string) error {
	for _, step := range []struct{ database, sql string }{{"postgres", "CREATE DATABASE " + name}, {name, schema}} {
		conn, err := pgx.Connect(ctx, server.url(step.database))
		if err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
		_, err = conn.Exec(ctx, step.sql)
		_ = conn.Close(ctx)
		if err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
	}
	return nil
}

func (d *dataset) url() string { return d.server.url(d.database) }

// close drops the base slot, so that the server need not keep the log for it.
func (d *dataset) close(ctx context.Context) error { return dropSlot(ctx, d.url(), baseSlot) }

// copySlot makes a slot with the position of the base slot.
func (d *dataset) copySlot(ctx context.Context, name string) error {
	return execute(ctx, d.url(), fmt.Sprintf(`SELECT pg_copy_logical_replication_slot('%s', '%s')`, baseSlot, name))
}

// dropSlot waits until nobody reads through the slot and drops it.
func dropSlot(ctx context.Context, url, name string) error {
	if err := awaitWalsender(ctx, url, name, func(pid int) bool { return pid == 0 }); err != nil {
		return err
	}
	return execute(ctx, url, fmt.Sprintf(`SELECT pg_drop_replication_slot('%s')`, name))
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
