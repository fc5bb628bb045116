package bench

import (
	"fmt"
	"strings"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

const (
	publication = "walrelay_bench"
	prefix      = "walrelay" // of messages
	keys        = 10_000
	// aggregate is the aggregatetype of all rows, and topic where everybody's default routing brings them.
	aggregate = "order"
	topic     = "outbox.event." + aggregate
)

// workload says what is written into an outbox, how, and how it is to be published.
type workload struct {
	name        string
	rows, perTx int
	size        int      // bytes of filler in each payload, beside the 300 of the order itself
	bytea       bool     // the payload is bytea in place of jsonb
	topics      int      // 0: one; by aggregatetype
	partitions  int      // of each topic; 0: kafkatest's number
	tables      int      // 0: one; by row number
	messages    bool     // pg_logical_emit_message in place of a table
	standing    int      // rows that are in the table before the slot is made
	split       bool     // with the publications of splitSchema
	foreign     int      // MiB that another table writes before each transaction
	environ     []string // more variables for walrelay
}

// outboxes are the names of the tables.
func (w workload) outboxes() []string {
	if w.tables == 0 {
		return []string{"outbox"}
	}
	var names []string
	for i := range w.tables {
		names = append(names, fmt.Sprintf("outbox_%d", i))
	}
	return names
}

func (w workload) topicNames() []string {
	if w.topics == 0 {
		return []string{topic}
	}
	var names []string
	for i := range w.topics {
		names = append(names, fmt.Sprintf("%s_%d", topic, i))
	}
	return names
}

func (w workload) partitionsEach() int {
	if w.partitions == 0 {
		return kafkatest.Partitions
	}
	return w.partitions
}

// base is what all databases have: the payload of a row, 300 to 310 bytes as text, whose seq numbers the rows from 1 on; and
// the table of the polling relay.
const base = `
CREATE FUNCTION payload(seq bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('seq', seq, 'order', 'order-' || seq, 'customer', 'customer-' || seq % 9999, 'status', 'placed',
        'currency', 'EUR', 'total', seq % 100000 / 100.0, 'lines', jsonb_build_array(
            jsonb_build_object('sku', 'SKU-' || seq % 5000, 'count', 1 + seq % 7, 'price', seq % 9999 / 100.0),
            jsonb_build_object('sku', 'SKU-' || seq % 777, 'count', 2, 'price', 12.5)),
        'remark', 'leave it with the neighbours, please')
$$;
CREATE TABLE ballast (content text NOT NULL);
CREATE TABLE filler (content text NOT NULL);
ALTER TABLE filler ALTER content SET STORAGE EXTERNAL;
INSERT INTO filler SELECT string_agg(md5(i::text), '') FROM generate_series(1, 4000) i;
CREATE TABLE outbox_polled (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id      uuid        NOT NULL DEFAULT gen_random_uuid(),
    aggregatetype text        NOT NULL,
    aggregateid   text        NOT NULL,
    type          text        NOT NULL,
    payload       jsonb,
    created_at    timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz
);
CREATE INDEX ON outbox_polled (id) WHERE published_at IS NULL;`

// table is the outbox that walrelay init makes.
const table = `
CREATE TABLE %s (
    id            uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text        NOT NULL,
    aggregateid   text        NOT NULL,
    type          text        NOT NULL,
    payload       %s,
    created_at    timestamptz NOT NULL DEFAULT now()
);`

// schema makes the tables, the publication, and procedures that write rows by number; the key of a row is its number modulo
// the number of keys.
func (w workload) schema() string {
	var b strings.Builder
	b.WriteString(base)
	kind := "jsonb"
	if w.bytea {
		kind = "bytea"
	}
	for _, name := range w.outboxes() {
		fmt.Fprintf(&b, table, name, kind)
	}
	fmt.Fprintf(&b, "\nCREATE PUBLICATION %s FOR TABLE %s WITH (publish = 'insert', publish_via_partition_root = true);",
		publication, strings.Join(w.outboxes(), ", "))
	if w.split {
		b.WriteString(splitSchema())
	}
	fmt.Fprintf(&b, "\nCREATE PROCEDURE place(low bigint, high bigint) LANGUAGE plpgsql AS $$\nBEGIN\n%sEND $$;", w.place())
	fmt.Fprintf(&b, "\nCREATE PROCEDURE place_polled(low bigint, high bigint) LANGUAGE plpgsql AS $$\nBEGIN\n%sEND $$;",
		w.insert("outbox_polled", ""))
	fmt.Fprintf(&b, `
CREATE PROCEDURE load(total bigint, per_tx bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOR low IN 1 .. total BY per_tx LOOP
        IF %[1]d > 0 THEN
            INSERT INTO ballast SELECT repeat('x', 1000) FROM generate_series(1, %[1]d * 1000);
            COMMIT;
        END IF;
        CALL place(low, least(low + per_tx - 1, total));
        COMMIT;
    END LOOP;
END $$;`, w.foreign)
	return b.String()
}

// place are the statements that write the rows low to high.
func (w workload) place() string {
	if w.messages {
		return fmt.Sprintf(`    PERFORM pg_logical_emit_message(true, '%s', jsonb_build_object('id', gen_random_uuid(), 'aggregatetype', %s,
        'aggregateid', 'key-' || seq %% %d, 'type', 'OrderPlaced', 'payload', %s)::text) FROM generate_series(low, high) seq;
`, prefix, w.aggregateSQL(), keys, w.payloadSQL())
	}
	var b strings.Builder
	for i, name := range w.outboxes() {
		condition := ""
		if w.tables > 0 {
			condition = fmt.Sprintf(" WHERE seq %% %d = %d", w.tables, i)
		}
		b.WriteString(w.insert(name, condition))
	}
	return b.String()
}

func (w workload) insert(table, condition string) string {
	return fmt.Sprintf(`    INSERT INTO %s (aggregatetype, aggregateid, type, payload)
    SELECT %s, 'key-' || seq %% %d, 'OrderPlaced', %s FROM generate_series(low, high) seq%s;
`, table, w.aggregateSQL(), keys, w.payloadSQL(), condition)
}

func (w workload) aggregateSQL() string {
	if w.topics == 0 {
		return "'" + aggregate + "'"
	}
	return fmt.Sprintf("'%s_' || seq %% %d", aggregate, w.topics)
}

func (w workload) payloadSQL() string {
	sql := "payload(seq)"
	if w.size > 0 {
		sql += fmt.Sprintf(" || jsonb_build_object('filler', (SELECT substr(content, (1 + seq %% 1000)::int, %d) FROM filler))", w.size)
	}
	if w.bytea {
		sql = "convert_to((" + sql + ")::text, 'UTF8')"
	}
	return sql
}
