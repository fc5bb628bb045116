package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/walrelay/walrelay/inbox/consumer"
)

// The ledger has no key that would hide an event which is booked twice.
const schema = `CREATE TABLE IF NOT EXISTS ledger (seq bigint GENERATED ALWAYS AS IDENTITY, event_id text, order_id text, body text)`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(ctx, schema); err != nil {
		log.Fatal(err)
	}
	err = consumer.Run(ctx, consumer.Config{
		Brokers: strings.Split(os.Getenv("KAFKA_BROKERS"), ","), Group: "billing", Topics: []string{"outbox.event.order"},
		Batch: 50, Concurrency: 4, SessionTimeout: 6 * time.Second, DrainTimeout: 2 * time.Second, Retention: 30 * 24 * time.Hour,
		Logger: slog.Default(),
	}, consumer.ExactlyOnce(db, "billing", book))
	if err != nil {
		log.Fatal(err)
	}
}

func book(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
	_, err := tx.Exec(ctx, `INSERT INTO ledger (event_id, order_id, body) VALUES ($1, $2, $3)`, m.ID, string(m.Key), string(m.Value))
	return err
}
