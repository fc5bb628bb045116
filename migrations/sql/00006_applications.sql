-- +goose Up
CREATE TABLE walrelay.processed_events (
    consumer     text        NOT NULL,
    event_id     text        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX processed_events_by_time ON walrelay.processed_events USING brin (processed_at);

COMMENT ON TABLE walrelay.processed_events IS
    'Which events the consumers of this database have processed, each written in the transaction that has the effect. Old rows may be deleted.';
COMMENT ON COLUMN walrelay.processed_events.consumer IS
    'Name of the consumer; each one processes an event once.';
COMMENT ON COLUMN walrelay.processed_events.event_id IS
    'Id of the event, as the header id has it.';
COMMENT ON COLUMN walrelay.processed_events.processed_at IS
    'When the transaction began. A row must be kept for as long as its event can still be delivered again.';

CREATE TABLE walrelay.processed_positions (
    consumer    text        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    source      text        NOT NULL,
    commit_lsn  pg_lsn      NOT NULL,
    ordinal     bigint      NOT NULL,
    commit_time bigint      NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, topic, partition, source)
);

COMMENT ON TABLE walrelay.processed_positions IS
    'How far the consumers of this database have come in each partition, for those that remember a position instead of each event.';
COMMENT ON COLUMN walrelay.processed_positions.source IS
    'Database that the events come from, as the header walrelay.lsn has it; empty: records without this header, by offset.';
COMMENT ON COLUMN walrelay.processed_positions.commit_lsn IS
    'Start of the commit record of the newest event; 0/0 without a source.';
COMMENT ON COLUMN walrelay.processed_positions.ordinal IS
    'Place of that event in its transaction; without a source, its offset.';
COMMENT ON COLUMN walrelay.processed_positions.commit_time IS
    'Newest commit time of all events, in microseconds since 1970. An event that is newer was never processed, whatever its position: its server was restored or replaced.';

-- +goose StatementBegin
CREATE FUNCTION walrelay.consumed(consumer text, event_id text) RETURNS boolean LANGUAGE plpgsql AS $walrelay$
BEGIN
    IF consumer IS NULL OR event_id IS NULL THEN
        RAISE EXCEPTION 'walrelay.consumed: consumer and event_id must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    INSERT INTO walrelay.processed_events VALUES (consumer, event_id) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$walrelay$;
-- +goose StatementEnd

COMMENT ON FUNCTION walrelay.consumed(text, text) IS
    'Notes in this transaction that the consumer has processed the event. True: it is the first time, go on. False: it was processed before, leave it out.';

-- +goose StatementBegin
CREATE FUNCTION walrelay.forget(consumer text, older_than interval, at_most integer DEFAULT 10000) RETURNS bigint LANGUAGE plpgsql AS $walrelay$
DECLARE
    deleted bigint;
BEGIN
    DELETE FROM walrelay.processed_events WHERE ctid = ANY (ARRAY(
        SELECT e.ctid FROM walrelay.processed_events e
        WHERE e.consumer = forget.consumer AND e.processed_at < pg_catalog.now() - older_than
        LIMIT at_most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$walrelay$;
-- +goose StatementEnd

COMMENT ON FUNCTION walrelay.forget(text, interval, integer) IS
    'Deletes what a consumer has processed so long ago, at most that many rows, and returns how many; call it until it returns 0.';

-- +goose StatementBegin
CREATE FUNCTION walrelay.publish(
    aggregatetype text,
    aggregateid   text,
    type          text,
    payload       jsonb,
    id            uuid  DEFAULT gen_random_uuid(),
    headers       jsonb DEFAULT NULL,
    outbox        text  DEFAULT 'public.outbox'
) RETURNS uuid LANGUAGE plpgsql AS $walrelay$
DECLARE
    target regclass;
    casts  jsonb; -- by column; empty for texts, whose length an explicit cast would cut to
    names  text[];
BEGIN
    IF aggregatetype IS NULL OR id IS NULL OR outbox IS NULL THEN
        RAISE EXCEPTION 'walrelay.publish: aggregatetype, id and outbox must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF pg_catalog.jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'walrelay.publish: headers must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    target := outbox::regclass;
    SELECT pg_catalog.jsonb_object_agg(a.attname, CASE WHEN t.typcategory = 'S' THEN '' ELSE '::' || pg_catalog.format_type(t.oid, NULL) END)
    INTO casts
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped;
    IF casts ?& ARRAY['id', 'aggregatetype', 'aggregateid', 'type', 'payload'] THEN
        names := ARRAY['aggregatetype', 'aggregateid', 'type'];
    ELSIF casts ?& ARRAY['id', 'aggregate_type', 'aggregate_id', 'event_type', 'payload'] THEN
        names := ARRAY['aggregate_type', 'aggregate_id', 'event_type'];
    ELSE
        RAISE EXCEPTION 'walrelay.publish: table % has neither id, aggregatetype, aggregateid, type, payload nor id, aggregate_type, aggregate_id, event_type, payload',
            target USING ERRCODE = 'undefined_column', HINT = 'Insert the row with a statement of your own.';
    END IF;
    IF headers IS NOT NULL AND NOT casts ? 'headers' THEN
        RAISE EXCEPTION 'walrelay.publish: table % has no column headers', target USING ERRCODE = 'undefined_column',
            HINT = pg_catalog.format('ALTER TABLE %s ADD COLUMN headers jsonb; and set columns.headers in the configuration of walrelay.', target);
    END IF;
    EXECUTE pg_catalog.format('INSERT INTO %s (id, %I, %I, %I, payload%s) VALUES ($1::text%s, $2%s, $3%s, $4%s, %s%s)',
        target, names[1], names[2], names[3], CASE WHEN headers IS NOT NULL THEN ', headers' END,
        casts ->> 'id', casts ->> names[1], casts ->> names[2], casts ->> names[3],
        CASE casts ->> 'payload' WHEN '::bytea' THEN 'pg_catalog.convert_to($5::text, ''UTF8'')' ELSE '$5' || (casts ->> 'payload') END,
        CASE WHEN headers IS NOT NULL THEN ', $6' || (casts ->> 'headers') END)
    USING id, aggregatetype, aggregateid, type, payload, headers;
    RETURN id;
END
$walrelay$;
-- +goose StatementEnd

COMMENT ON FUNCTION walrelay.publish(text, text, text, jsonb, uuid, jsonb, text) IS
    'Publishes an event of this transaction: inserts it into the outbox table, whose columns may have Debezium''s or snake-case names; returns its id.';
