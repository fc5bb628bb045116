-- +goose Up
ALTER TABLE walrelay.checkpoint ADD COLUMN ceiling pg_lsn;
ALTER TABLE walrelay.checkpoint DROP CONSTRAINT checkpoint_state_check;
ALTER TABLE walrelay.checkpoint ADD CONSTRAINT checkpoint_state_check
    CHECK (state IN ('creating', 'ready', 'clean', 'drained', 'repairing'));

COMMENT ON COLUMN walrelay.checkpoint.state IS
    'creating: the slot is being made. ready: in use, or the last stop was not clean. clean: stopped after everything read was acknowledged. drained: everything is published, and the server may be stopped for an upgrade. repairing: walrelay repair was begun and has not ended.';
COMMENT ON COLUMN walrelay.checkpoint.ceiling IS
    'After a drain: the slot may stand up to here without a row for it, since only what is in Kafka was confirmed.';
