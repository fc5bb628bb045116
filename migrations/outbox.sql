CREATE TABLE public.outbox (
    id            uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text        NOT NULL,
    aggregateid   text        NOT NULL,
    type          text        NOT NULL,
    payload       jsonb,
    created_at    timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE public.outbox IS
    'Insert an event here in the transaction that changes the data; walrelay publishes it to Kafka after the commit.';
