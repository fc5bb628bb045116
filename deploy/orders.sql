-- One order and its event, in one transaction: either both exist or neither.
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL);

WITH placed AS (
    INSERT INTO orders (customer, total)
    VALUES ('customer-' || (random() * 9)::int, round((random() * 100)::numeric, 2))
    RETURNING *
)
INSERT INTO public.outbox (aggregatetype, aggregateid, type, payload)
SELECT 'order', customer, 'OrderPlaced', to_jsonb(placed) FROM placed;
