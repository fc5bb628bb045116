-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION walrelay.emit(
    aggregatetype text,
    aggregateid   text,
    type          text,
    payload       jsonb,
    id            uuid  DEFAULT gen_random_uuid(),
    headers       jsonb DEFAULT NULL,
    prefix        text  DEFAULT 'walrelay'
) RETURNS uuid LANGUAGE plpgsql AS $walrelay$
BEGIN
    IF aggregatetype IS NULL OR id IS NULL OR prefix IS NULL THEN
        RAISE EXCEPTION 'walrelay.emit: aggregatetype, id and prefix must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF pg_catalog.jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'walrelay.emit: headers must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_catalog.pg_logical_emit_message(true, prefix, pg_catalog.json_build_object(
        'id', id, 'aggregatetype', aggregatetype, 'aggregateid', aggregateid, 'type', type,
        'payload', payload, 'headers', headers)::text);
    RETURN id;
END
$walrelay$;
-- +goose StatementEnd

COMMENT ON FUNCTION walrelay.emit(text, text, text, jsonb, uuid, jsonb, text) IS
    'Publishes an event of this transaction without a table, where walrelay has messages enabled; returns its id.';
