-- +goose Up
CREATE TABLE walrelay.checkpoint (
    slot             text        PRIMARY KEY,
    state            text        NOT NULL CHECK (state IN ('creating', 'ready', 'clean', 'repairing')),
    system_id        text        NOT NULL,
    timeline         integer     NOT NULL,
    lsn              pg_lsn      NOT NULL,
    commit_time      timestamptz,
    horizon          xid8,
    horizon_lsn      pg_lsn,
    horizon_time     timestamptz,
    publication      text,
    run_epoch        bigint      NOT NULL DEFAULT 0,
    kafka_cluster_id text,
    producer_id      bigint,
    saved_at         timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE walrelay.checkpoint IS
    'How far walrelay has come, one row per replication slot. Written only by walrelay; never edit or delete a row by hand.';
COMMENT ON COLUMN walrelay.checkpoint.slot IS
    'Name of the logical replication slot.';
COMMENT ON COLUMN walrelay.checkpoint.state IS
    'creating: the slot is being made. ready: in use, or the last stop was not clean. clean: stopped after everything read was acknowledged. repairing: walrelay repair was begun and has not ended.';
COMMENT ON COLUMN walrelay.checkpoint.system_id IS
    'System identifier of the server whose WAL the position belongs to.';
COMMENT ON COLUMN walrelay.checkpoint.timeline IS
    'Timeline of that server at the last save.';
COMMENT ON COLUMN walrelay.checkpoint.lsn IS
    'Every event of a transaction whose commit record starts below this position is in Kafka.';
COMMENT ON COLUMN walrelay.checkpoint.commit_time IS
    'Commit time of the last such transaction that had events; null before the first.';
COMMENT ON COLUMN walrelay.checkpoint.horizon IS
    'Every event of a transaction with a lower id is in Kafka; null: not known.';
COMMENT ON COLUMN walrelay.checkpoint.horizon_lsn IS
    'No transaction below the horizon has its commit record at or behind this position.';
COMMENT ON COLUMN walrelay.checkpoint.horizon_time IS
    'No transaction from the horizon on was committed before this time.';
COMMENT ON COLUMN walrelay.checkpoint.publication IS
    'Fingerprint of the publication and its tables; another one means that rows may be missing in the stream.';
COMMENT ON COLUMN walrelay.checkpoint.run_epoch IS
    'Raised at each start of a relay; only the relay with the newest number may save.';
COMMENT ON COLUMN walrelay.checkpoint.kafka_cluster_id IS
    'Kafka cluster that has the events; null before the first save.';
COMMENT ON COLUMN walrelay.checkpoint.producer_id IS
    'Producer id that the Kafka brokers know the relay by; a relay that gets another one cannot refuse its predecessor.';
COMMENT ON COLUMN walrelay.checkpoint.saved_at IS
    'Time of the last save, by the clock of Postgres.';
