package outbox_test

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/walrelay/walrelay/outbox"
)

// An order and its event are written together or not at all.
func ExampleInsert() {
	payOrder := func(ctx context.Context, tx pgx.Tx, order string) error {
		if _, err := tx.Exec(ctx, `UPDATE orders SET state = 'paid' WHERE id = $1`, order); err != nil {
			return err
		}
		return outbox.Insert(ctx, tx, outbox.Event{
			AggregateType: "order", AggregateID: order, Type: "OrderPaid", Payload: map[string]string{"order": order},
		})
	}
	_ = payOrder
}

// With database/sql, into a table with snake-case columns. GORM's transaction is tx.Statement.ConnPool.(outbox.SQLTx).
func ExampleSQL() {
	box := outbox.Outbox{Table: "public.outbox_messages", Columns: outbox.SnakeCase}
	payOrder := func(ctx context.Context, tx *sql.Tx, order string) error {
		return box.Insert(ctx, outbox.SQL(tx), outbox.Event{AggregateType: "order", AggregateID: order, Type: "OrderPaid"})
	}
	_ = payOrder
}

// A unit of work: begin, change, collect events, write them, commit. The request's trace goes on at the consumer.
func ExampleInTx() {
	handler := func(pool *pgxpool.Pool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx := outbox.WithTraceParent(r.Context(), r.Header.Get("traceparent"))
			err := outbox.InTx(ctx, pool, func(tx pgx.Tx, unit *outbox.Unit) error {
				unit.Add(outbox.Event{AggregateType: "order", AggregateID: "4711", Type: "OrderPaid"})
				_, err := tx.Exec(ctx, `UPDATE orders SET state = 'paid' WHERE id = '4711'`)
				return err
			})
			if err != nil {
				http.Error(w, "try again", http.StatusServiceUnavailable)
			}
		}
	}
	_ = handler
}
