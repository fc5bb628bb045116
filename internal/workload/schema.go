package workload

// SQL makes the tables of the Basic mix.
const SQL = `
	CREATE TABLE keys (key text PRIMARY KEY, aggregate text NOT NULL, sequence bigint NOT NULL DEFAULT 0);
	INSERT INTO keys SELECT 'key-' || n, (ARRAY['order', 'customer', 'stock'])[1 + n % 3] FROM generate_series(0, 59) n;
	CREATE TABLE outbox (
		id            uuid   PRIMARY KEY DEFAULT gen_random_uuid(),
		aggregatetype text   NOT NULL,
		aggregateid   text   NOT NULL,
		type          text   NOT NULL,
		payload       jsonb,
		sequence      bigint NOT NULL
	)`

// PartitionsSQL adds what the mix Everything needs: a second outbox, outbox_parts, whose partitions come and go, and keys
// that a transaction may lock for long without standing in anybody's way.
//
// The current partition is a row and no sequence: a crash undoes it together with the partition.
const PartitionsSQL = `
	INSERT INTO keys SELECT 'long-' || n, (ARRAY['order', 'customer', 'stock'])[1 + n % 3] FROM generate_series(0, 9) n;
	INSERT INTO keys SELECT 'burst-' || n, (ARRAY['order', 'customer', 'stock'])[1 + n % 3] FROM generate_series(0, 9) n;
	CREATE TABLE current_part (part int NOT NULL);
	INSERT INTO current_part VALUES (0);
	CREATE FUNCTION current_part() RETURNS int LANGUAGE sql STABLE AS 'SELECT part FROM current_part';
	CREATE TABLE outbox_parts (
		id            uuid   NOT NULL DEFAULT gen_random_uuid(),
		aggregatetype text   NOT NULL,
		aggregateid   text   NOT NULL,
		type          text   NOT NULL,
		payload       jsonb,
		sequence      bigint NOT NULL,
		part          int    NOT NULL DEFAULT current_part()
	) PARTITION BY LIST (part);
	CREATE TABLE outbox_parts_0 PARTITION OF outbox_parts FOR VALUES IN (0)`

// Topics are those of both outboxes.
var Topics = []string{"outbox.event.customer", "outbox.event.order", "outbox.event.stock"}

const keys = 60
