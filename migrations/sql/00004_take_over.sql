-- +goose Up
ALTER TABLE walrelay.checkpoint ADD COLUMN match_by_id boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN walrelay.checkpoint.match_by_id IS
    'Somebody else has published from this slot before: until the relay is past that, their records are matched by event id and key. Set by walrelay slot adopt.';
