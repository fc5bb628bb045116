package consumer_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/walrelay/walrelay/inbox/consumer"
)

// Each order is booked once, whatever is delivered twice, killed or rebalanced.
func ExampleExactlyOnce() {
	run := func(ctx context.Context, pool *pgxpool.Pool) error {
		return consumer.Run(ctx, consumer.Config{
			Brokers: []string{"localhost:9092"}, Group: "billing", Topics: []string{"outbox.event.order"},
			Batch: 100, Concurrency: 8, Attempts: 10, DeadLetter: "billing.dead", Retention: 30 * 24 * time.Hour,
		}, consumer.ExactlyOnce(pool, "billing", func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
			_, err := tx.Exec(ctx, `INSERT INTO bookings (order_id, event) VALUES ($1, $2)`, string(m.Key), m.Value)
			return err
		}))
	}
	_ = run
}
