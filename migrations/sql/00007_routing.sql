-- +goose Up
ALTER TABLE walrelay.checkpoint ADD COLUMN routing text;

COMMENT ON COLUMN walrelay.checkpoint.routing IS
    'Hash of the configuration that makes records of rows; another one at a start is warned of. Null: not known yet.';
