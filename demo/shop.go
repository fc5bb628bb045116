package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/migrations"
)

// The shop's own tables, beside the outbox. They have a schema of their own: on the user's server nothing else is touched.
const (
	schema      = "walrelay_demo"
	outboxTable = schema + ".outbox"

	shopTables = `
		CREATE SCHEMA IF NOT EXISTS walrelay_demo;
		CREATE TABLE IF NOT EXISTS walrelay_demo.customers (
			id   bigint GENERATED ALWAYS AS IDENTITY (START 101) PRIMARY KEY,
			name text NOT NULL
		);
		CREATE TABLE IF NOT EXISTS walrelay_demo.orders (
			id       bigint GENERATED ALWAYS AS IDENTITY (START 5001) PRIMARY KEY,
			customer bigint NOT NULL REFERENCES walrelay_demo.customers,
			status   text NOT NULL,
			total    numeric(10,2) NOT NULL
		)`
)

// The shop's aggregate types.
const (
	customers = "customer"
	orders    = "order"
)

// shop is a business that writes each change and the event about it in one transaction. One goroutine uses it.
type shop struct {
	conn      *pgx.Conn
	prefix    string // of the topics
	ledger    *ledger
	customers []customer
	orders    []*order // not shipped yet
}

type customer struct {
	ID   int64  `json:"customer"`
	Name string `json:"name"`
}

type order struct {
	id     int64
	total  string
	events int64 // written about it so far
	paid   bool
}

func openShop(ctx context.Context, url, prefix string, l *ledger) (*shop, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	if err := createTables(ctx, conn); err != nil {
		conn.Close(ctx)
		return nil, fmt.Errorf("create the shop's tables: %w", err)
	}
	return &shop{conn: conn, prefix: prefix, ledger: l}, nil
}

func (s *shop) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // the server notices either way
}

func createTables(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, shopTables); err != nil {
		return err
	}
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, outboxTable).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := conn.Exec(ctx, migrations.OutboxSQL(schema, "outbox"))
	return err
}

// trade does one piece of business, with at most room events, in one transaction. It returns how many events it wrote.
func (s *shop) trade(ctx context.Context, room int) (events int, err error) {
	err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		switch open := len(s.orders); {
		case open > 0 && rand.IntN(8) < open: // the more are open, the likelier
			events = 1
			return s.advance(ctx, tx, rand.IntN(open))
		case room > 1 && rand.IntN(len(s.customers)+2) < 2:
			events = 2
			return s.register(ctx, tx)
		case len(s.customers) == 0: // no room for the order
			events = 1
			_, err := s.newCustomer(ctx, tx)
			return err
		default:
			events = 1
			return s.place(ctx, tx, s.customers[rand.IntN(len(s.customers))])
		}
	})
	if err != nil {
		return 0, fmt.Errorf("write an order: %w", err)
	}
	return events, nil
}

// register is a new customer with the first order: two events in one transaction.
func (s *shop) register(ctx context.Context, tx pgx.Tx) error {
	c, err := s.newCustomer(ctx, tx)
	if err != nil {
		return err
	}
	return s.place(ctx, tx, c)
}

func (s *shop) newCustomer(ctx context.Context, tx pgx.Tx) (customer, error) {
	c := customer{Name: pick(firstNames) + " " + pick(lastNames)}
	err := tx.QueryRow(ctx, `INSERT INTO walrelay_demo.customers (name) VALUES ($1) RETURNING id`, c.Name).Scan(&c.ID)
	if err != nil {
		return c, err
	}
	s.customers = append(s.customers, c)
	return c, s.event(ctx, tx, customers, c.ID, 1, "CustomerJoined", c)
}

func (s *shop) place(ctx context.Context, tx pgx.Tx, c customer) error {
	article, quantity := pick(articles), 1+rand.Int64N(3)
	o := &order{total: fmt.Sprintf("%d.%02d", article.cents*quantity/100, article.cents*quantity%100), events: 1}
	err := tx.QueryRow(ctx, `INSERT INTO walrelay_demo.orders (customer, status, total) VALUES ($1, 'placed', $2) RETURNING id`,
		c.ID, o.total).Scan(&o.id)
	if err != nil {
		return err
	}
	s.orders = append(s.orders, o)
	return s.event(ctx, tx, orders, o.id, o.events, "OrderPlaced", map[string]any{
		"order": o.id, "customer": c.ID, "name": c.Name, "item": article.name, "quantity": quantity, "total": o.total, "currency": "EUR",
	})
}

// advance takes an open order one step further: placed, paid, shipped.
func (s *shop) advance(ctx context.Context, tx pgx.Tx, i int) error {
	o := s.orders[i]
	o.events++
	if o.paid {
		s.orders = append(s.orders[:i], s.orders[i+1:]...)
		if err := s.status(ctx, tx, o, "shipped"); err != nil {
			return err
		}
		return s.event(ctx, tx, orders, o.id, o.events, "OrderShipped", map[string]any{
			"order": o.id, "carrier": pick(carriers), "tracking": fmt.Sprintf("%012d", rand.Int64N(1e12)),
		})
	}
	o.paid = true
	if err := s.status(ctx, tx, o, "paid"); err != nil {
		return err
	}
	return s.event(ctx, tx, orders, o.id, o.events, "OrderPaid", map[string]any{
		"order": o.id, "amount": o.total, "method": pick(methods),
	})
}

func (s *shop) status(ctx context.Context, tx pgx.Tx, o *order, status string) error {
	_, err := tx.Exec(ctx, `UPDATE walrelay_demo.orders SET status = $2 WHERE id = $1`, o.id, status)
	return err
}

// event writes the outbox row.
func (s *shop) event(ctx context.Context, tx pgx.Tx, aggregate string, id, sequence int64, eventType string, payload any) error {
	row := audit.Row{Topic: s.prefix + aggregate, Key: fmt.Sprint(id), Sequence: sequence}
	err := tx.QueryRow(ctx, `INSERT INTO walrelay_demo.outbox (aggregatetype, aggregateid, type, payload)
		VALUES ($1, $2, $3, $4) RETURNING id::text`, aggregate, row.Key, eventType, payload).Scan(&row.ID)
	if err == nil {
		s.ledger.expect(row)
	}
	return err
}

func pick[T any](from []T) T { return from[rand.IntN(len(from))] }

var (
	firstNames = []string{"Ada", "Alan", "Barbara", "Donald", "Edsger", "Grace", "Hedy", "Ken", "Leslie", "Margaret", "Radia", "Tony"}
	lastNames  = []string{"Alvarez", "Baker", "Costa", "Dubois", "Eriksen", "Fischer", "Haddad", "Ito", "Kowalski", "Müller", "Okafor", "Singh"}
	articles   = []struct {
		name  string
		cents int64
	}{{"green tea, 250 g", 1190}, {"coffee grinder", 8900}, {"notebook, dotted", 950}, {"desk lamp", 4450}, {"wool blanket", 7200}, {"fountain pen", 3275}}
	methods  = []string{"card", "invoice", "paypal"}
	carriers = []string{"DHL", "DPD", "UPS"}
)
