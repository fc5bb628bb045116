package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq"

	"github.com/walrelay/walrelay/inbox"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
	"github.com/walrelay/walrelay/outbox"
)

var errRefused = errors.New("refused")

// The effect of an event is there once, whatever order commits, errors and repeats come in.
func TestOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for name, inTx := range db.transactions() {
		apply := func(consumer, event string, result error) string {
			called := false
			err := inTx(func(tx outbox.Tx) (err error) {
				called, err = inbox.Once(t.Context(), tx, name+consumer, event, func(context.Context) error {
					_, err := tx.Exec(t.Context(), `INSERT INTO effect VALUES ($1)`, name+consumer+event)
					return errors.Join(err, result)
				})
				return err
			})
			if err != nil && !errors.Is(err, errRefused) {
				t.Fatal(err)
			}
			return fmt.Sprint(called, err != nil)
		}
		got := []string{apply("a", "1", errRefused), apply("a", "1", nil), apply("a", "1", nil), apply("b", "1", nil), apply("a", "2", nil)}
		want := []string{"true true", "true false", "false false", "true false", "true false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: called, failed (-want +got):\n%s", name, diff)
		}
		if n := db.count(t, `SELECT count(*) FROM effect WHERE id LIKE '`+name+`%'`); n != 3 {
			t.Errorf("%s: %d effects, want 3", name, n)
		}
	}
}

// Each line is one event and whether it must be let through.
func TestOnceInOrder(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	at := func(partition int, offset int64, lsn string) inbox.Position {
		return inbox.Position{Topic: "t", Partition: partition, Offset: offset, LSN: lsn}
	}
	for name, inTx := range db.transactions() {
		for i, c := range []struct {
			at   inbox.Position
			want bool
		}{
			{at(0, 10, ""), true}, {at(0, 10, ""), false}, {at(0, 9, ""), false}, {at(0, 12, ""), true}, {at(1, 3, ""), true},
			{at(0, 13, "0000000a:0/100:1000:1"), true},
			{at(0, 14, "0000000a:0/100:1000:1"), false}, // published twice
			{at(0, 15, "0000000a:0/100:1000:2"), true},
			{at(0, 16, "0000000a:0/FF:1000:7"), false},
			{at(0, 17, "0000000a:0/200:990:1"), true}, // commit times are not quite in order
			{at(0, 18, "0000000a:0/200:1000:1"), false},
			{at(0, 19, "0000000b:0/1:5:1"), true},      // of another database
			{at(0, 20, "0000000a:0/150:5000:1"), true}, // after a failover that has lost 0/200
			{at(0, 21, "0000000a:0/150:5000:1"), false},
			{at(0, 22, "0000000a:0/160:5001:1"), true},
		} {
			var called bool
			err := inTx(func(tx outbox.Tx) (err error) {
				called, err = inbox.OnceInOrder(t.Context(), tx, name, c.at, func(context.Context) error { return nil })
				return err
			})
			if err != nil || called != c.want {
				t.Errorf("%s, line %d, %+v: called %v, %v", name, i, c.at, called, err)
			}
		}
	}
	err := db.transactions()["pgx"](func(tx outbox.Tx) error {
		_, err := inbox.OnceInOrder(t.Context(), tx, "c", at(0, 1, "garbage"), func(context.Context) error { t.Error("called"); return nil })
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "walrelay.lsn") {
		t.Error(err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	pgtest.Exec(t, db.url, `INSERT INTO walrelay.processed_events SELECT 'a', n, now() - interval '8 days' FROM generate_series(1, 25000) n`,
		`INSERT INTO walrelay.processed_events VALUES ('a', 'new', now()), ('b', 'old', now() - interval '1 year')`)
	n, err := inbox.Forget(t.Context(), db.conn, "a", 7*24*time.Hour)
	if left := db.count(t, `SELECT count(*) FROM walrelay.processed_events`); n != 25000 || left != 2 || err != nil {
		t.Errorf("%d deleted, %d left, %v", n, left, err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t) // without the schema
	conn := connect(t, url)
	for _, c := range []struct{ consumer, event, want string }{
		{"", "e", "consumer is empty"}, {"c", "", "event is empty"}, {"c", "\xff", "not UTF-8"}, {"c", "e", "run walrelay init --schema-only"},
	} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := inbox.Once(t.Context(), tx, c.consumer, c.event, func(context.Context) error { t.Error("called"); return nil })
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

type database struct {
	url  string
	conn *pgx.Conn
	db   *sql.DB
	t    *testing.T
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	url := pgtest.Shared(t, "").Database(t)
	config, err := pgx.ParseConfig(url)
	if err == nil {
		err = migrations.Apply(t.Context(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, `CREATE TABLE effect (id text)`)
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &database{url, connect(t, url), db, t}
}

// transactions are the two kinds of a caller's transaction.
func (d *database) transactions() map[string]func(func(outbox.Tx) error) error {
	return map[string]func(func(outbox.Tx) error) error{
		"pgx": func(do func(outbox.Tx) error) error {
			return pgx.BeginFunc(d.t.Context(), d.conn, func(tx pgx.Tx) error { return do(tx) })
		},
		"pq": func(do func(outbox.Tx) error) error {
			tx, err := d.db.BeginTx(d.t.Context(), nil)
			if err != nil {
				return err
			}
			if err := do(outbox.SQL(tx)); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
	}
}

func (d *database) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := d.conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
