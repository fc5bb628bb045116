-- +goose Up
CREATE TABLE walrelay.request (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot         text        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('pause', 'resume', 'skip', 'drain')),
    event        text,
    reason       text        NOT NULL,
    requested_by text        NOT NULL DEFAULT session_user,
    requested_at timestamptz NOT NULL DEFAULT now(),
    done_at      timestamptz,
    outcome      text,
    CHECK ((kind = 'skip') = (event IS NOT NULL))
);

COMMENT ON TABLE walrelay.request IS
    'What people asked the relay to do, and what became of it. Rows are the record of it; delete them only when they are done.';
COMMENT ON COLUMN walrelay.request.slot IS
    'Name of the logical replication slot whose relay is asked.';
COMMENT ON COLUMN walrelay.request.kind IS
    'pause: publish nothing more. resume: go on. skip: leave one event out. drain: publish everything and let the server move on, for an upgrade.';
COMMENT ON COLUMN walrelay.request.event IS
    'Identity of the event to skip, as the header walrelay.lsn and the status have it.';
COMMENT ON COLUMN walrelay.request.reason IS
    'Why, in the words of the person.';
COMMENT ON COLUMN walrelay.request.done_at IS
    'When the relay did it; null: not yet.';
COMMENT ON COLUMN walrelay.request.outcome IS
    'What it did.';
