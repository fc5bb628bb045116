package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/segmentio/kafka-go"
)

func main() {
	url := flag.String("url", "", "of the database")
	broker := flag.String("broker", "", "address of a Kafka broker")
	table := flag.String("table", "outbox_polled", "that has the rows")
	batch := flag.Int("batch", 100, "rows in a transaction")
	interval := flag.Duration("interval", 100*time.Millisecond, "pause after a batch that was not full")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *url, *broker, *table, *batch, *interval); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, broker, table string, batch int, interval time.Duration) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	writer := &kafka.Writer{Addr: kafka.TCP(broker), Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond}
	defer writer.Close() // it has written all: WriteMessages waits
	for ctx.Err() == nil {
		n, err := publish(ctx, conn, writer, table, batch)
		if err != nil {
			return err
		}
		if n == batch {
			continue
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
	return nil
}

// publish takes one batch, the oldest rows first, and returns how many there were.
func publish(ctx context.Context, conn *pgx.Conn, writer *kafka.Writer, table string, batch int) (int, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // nothing after the commit
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT id, event_id::text, aggregatetype, aggregateid, payload::text FROM %s
		WHERE published_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`, table), batch)
	if err != nil {
		return 0, err
	}
	var id int64
	var event, aggregate, key, payload string
	var ids []int64
	var messages []kafka.Message
	_, err = pgx.ForEachRow(rows, []any{&id, &event, &aggregate, &key, &payload}, func() error {
		ids = append(ids, id)
		messages = append(messages, kafka.Message{Topic: "outbox.event." + aggregate, Key: []byte(key), Value: []byte(payload),
			Headers: []kafka.Header{{Key: "id", Value: []byte(event)}}})
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return 0, fmt.Errorf("publish %d rows: %w", len(ids), err)
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE %s SET published_at = now() WHERE id = ANY($1)`, table), ids); err != nil {
		return 0, err
	}
	return len(ids), tx.Commit(ctx)
}
