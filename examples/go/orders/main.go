package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/walrelay/walrelay/outbox"
)

const schema = `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, amount integer NOT NULL, state text NOT NULL)`

// service is the order service.
type service struct{ db *pgxpool.Pool }

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
	s := service{db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /orders", s.create)
	mux.HandleFunc("POST /orders/{id}/pay", s.pay)
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// order is what a client sends.
type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

func (s service) create(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.ID == "" {
		http.Error(w, "want an order with an id", http.StatusBadRequest)
		return
	}
	// A client that got no answer sends the same order again: then there is nothing to do and nothing to tell.
	s.change(w, r, outbox.Event{AggregateType: "order", AggregateID: o.ID, Type: "OrderCreated", Payload: o},
		`INSERT INTO orders VALUES ($1, $2, 'created') ON CONFLICT DO NOTHING`, o.ID, o.Amount)
}

func (s service) pay(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.change(w, r, outbox.Event{AggregateType: "order", AggregateID: id, Type: "OrderPaid", Payload: map[string]string{"id": id}},
		`UPDATE orders SET state = 'paid' WHERE id = $1 AND state = 'created'`, id)
}

// change runs a statement and, where it has changed something, adds the event, in one transaction.
func (s service) change(w http.ResponseWriter, r *http.Request, event outbox.Event, statement string, args ...any) {
	ctx := outbox.WithTraceParent(r.Context(), r.Header.Get("traceparent"))
	err := outbox.InTx(ctx, s.db, func(tx pgx.Tx, unit *outbox.Unit) error {
		tag, err := tx.Exec(ctx, statement, args...)
		if err == nil && tag.RowsAffected() == 1 {
			unit.Add(event)
		}
		return err
	})
	if err != nil {
		log.Print(err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}
