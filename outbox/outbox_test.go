package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
	"github.com/walrelay/walrelay/outbox"
)

// wide has every column that an Outbox can write, with names that need quotes.
const wide = `CREATE TABLE "My Events" (seq bigint GENERATED ALWAYS AS IDENTITY, "Id" uuid, "order" text, key text, kind text,
	body jsonb, headers jsonb, trace text)`

var wideOutbox = outbox.Outbox{Table: "public.My Events", Columns: outbox.Columns{ID: "Id", AggregateType: "order", AggregateID: "key",
	Type: "kind", Payload: "body", Headers: "headers", TraceParent: "trace"}}

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Each driver has its own idea of how a Go value becomes a parameter; the rows must be the same.
func TestInsert(t *testing.T) {
	for name, inTx := range map[string]func(*testing.T, string, func(outbox.Tx) error) error{
		"pgx": withPgx, "database sql with pgx": withSQL("pgx"), "database sql with pq": withSQL("postgres"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Shared(t, "").Database(t)
			pgtest.Exec(t, url, wide)
			ctx := outbox.WithTraceParent(t.Context(), trace)
			err := inTx(t, url, func(tx outbox.Tx) error {
				return wideOutbox.Insert(ctx, tx,
					outbox.Event{ID: "0f8fad5b-d9cb-469f-a165-70867728950e", AggregateType: "Order", AggregateID: "k'1", Type: "Created",
						Payload: map[string]any{"é": 1}, Headers: map[string]string{"tenant": "t1"}},
					outbox.Event{ID: "0f8fad5b-d9cb-469f-a165-70867728950f", AggregateType: "Order", AggregateID: "k2", Type: "Gone"})
			})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{
				`0f8fad5b-d9cb-469f-a165-70867728950e|Order|k'1|Created|{"é": 1}|{"tenant": "t1"}|` + trace,
				`0f8fad5b-d9cb-469f-a165-70867728950f|Order|k2|Gone|NULL|NULL|` + trace,
			}
			got := lines(t, url, `SELECT concat_ws('|', "Id", "order", key, kind, coalesce(body::text, 'NULL'), coalesce(headers::text, 'NULL'), trace)
				FROM "My Events" ORDER BY seq`)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Many events come into the table in the order given, and their ids are in that order too.
func TestInsertManyKeepsTheOrder(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, migrations.OutboxSQL("public", "outbox"), `ALTER TABLE outbox ADD seq bigint GENERATED ALWAYS AS IDENTITY`)
	events := make([]outbox.Event, 1100) // 512 + 512 + 64 + 8 + 4
	for i := range events {
		events[i] = outbox.Event{AggregateType: "order", AggregateID: fmt.Sprint(i), Type: "t", Payload: json.RawMessage(`{ "n" :1}`)}
	}
	if err := withPgx(t, url, func(tx outbox.Tx) error { return outbox.Insert(t.Context(), tx, events...) }); err != nil {
		t.Fatal(err)
	}
	got := lines(t, url, `SELECT aggregateid || ' ' || row_number() OVER (ORDER BY id) FROM outbox ORDER BY seq`)
	if len(got) != len(events) {
		t.Fatalf("%d rows", len(got))
	}
	for i, line := range got {
		if line != fmt.Sprintf("%d %d", i, i+1) {
			t.Fatalf("row %d: %s", i, line)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, `CREATE TABLE blobs (id bigint GENERATED ALWAYS AS IDENTITY, aggregate_type text, aggregate_id text, event_type text, payload bytea)`)
	columns := outbox.SnakeCase
	columns.ID = "" // the database makes it
	box := outbox.Outbox{Table: "public.blobs", Columns: columns}
	event := outbox.Event{AggregateType: "a", AggregateID: "1", Type: "t", Payload: []byte{0, 1, 255}}
	for _, inTx := range []func(*testing.T, string, func(outbox.Tx) error) error{withPgx, withSQL("pgx"), withSQL("postgres")} {
		if err := inTx(t, url, func(tx outbox.Tx) error { return box.Insert(t.Context(), tx, event) }); err != nil {
			t.Fatal(err)
		}
	}
	if got := lines(t, url, `SELECT id || encode(payload, 'hex') FROM blobs ORDER BY id`); !cmp.Equal(got, []string{"10001ff", "20001ff", "30001ff"}) {
		t.Error(got)
	}
	event.ID = "7"
	if err := withPgx(t, url, func(tx outbox.Tx) error { return box.Insert(t.Context(), tx, event) }); err == nil {
		t.Error("an id was accepted that nothing would store")
	}
}

// What the database or the relay would refuse is refused before anything is written: tx is nil, so that a statement would
// be a panic.
func TestRefused(t *testing.T) {
	good := outbox.Event{AggregateType: "order", AggregateID: "1", Type: "t"}
	with := func(change func(*outbox.Event)) outbox.Event { e := good; change(&e); return e }
	for _, c := range []struct {
		box   outbox.Outbox
		event outbox.Event
		want  string
	}{
		{event: with(func(e *outbox.Event) { e.AggregateType = "" }), want: "empty AggregateType"},
		{event: with(func(e *outbox.Event) { e.AggregateType = "Order Item" }), want: "cannot be part of a topic's name"},
		{event: with(func(e *outbox.Event) { e.AggregateType = strings.Repeat("a", 250) }), want: "cannot be part of a topic's name"},
		{event: with(func(e *outbox.Event) { e.AggregateID = "" }), want: "empty AggregateID"},
		{event: with(func(e *outbox.Event) { e.AggregateID = "a\x00" }), want: "zero byte"},
		{event: with(func(e *outbox.Event) { e.Type = "\xff" }), want: "not UTF-8"},
		{event: with(func(e *outbox.Event) { e.Type = "" }), want: "empty Type"},
		{event: with(func(e *outbox.Event) { e.Payload = json.RawMessage(`{`) }), want: "invalid JSON"},
		{event: with(func(e *outbox.Event) { e.Payload = make(chan int) }), want: "Payload as JSON"},
		{event: with(func(e *outbox.Event) { e.Headers = map[string]string{"a": "b"} }), want: "no column for them"},
		{event: with(func(e *outbox.Event) { e.Headers = map[string]string{"walrelay.lsn": "b"} }), want: "written by the relay"},
		{event: with(func(e *outbox.Event) { e.Headers = map[string]string{"": "b"} }), want: "not empty"},
		{box: outbox.Outbox{Prefix: "p"}, event: with(func(e *outbox.Event) { e.Payload = []byte("x") }), want: "a message carries JSON"},
		{box: outbox.Outbox{Prefix: "p", Table: "a.b"}, event: good, want: "leave Table and Columns empty"},
		{box: outbox.Outbox{Prefix: "p\x00"}, event: good, want: "prefix"},
		{box: outbox.Outbox{Table: "outbox"}, event: good, want: "write schema.table"},
		{box: outbox.Outbox{Table: `"public"."outbox"`}, event: good, want: "without quotes"},
		{box: outbox.Outbox{Table: "public." + strings.Repeat("x", 64)}, event: good, want: "write schema.table"},
		{box: outbox.Outbox{Columns: outbox.Columns{ID: "id"}}, event: good, want: "needs AggregateType"},
		{box: outbox.Outbox{Columns: outbox.Columns{AggregateType: "a", AggregateID: "a", Payload: "p"}}, event: good, want: "two things"},
	} {
		err := c.box.Insert(t.Context(), nil, good, c.event)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "outbox: ") {
			t.Errorf("%+v %+v: got %v, want %s", c.box, c.event, err, c.want)
		}
	}
	if err := outbox.Insert(t.Context(), nil); err != nil {
		t.Errorf("no events: %v", err)
	}
}

// The rows of a unit of work exist if and only if its transaction committed.
func TestUnitOfWork(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, migrations.OutboxSQL("public", "outbox"), `CREATE TABLE done (id text)`)
	conn, db := connect(t, url), open(t, "pgx", url)
	event := func(id string) outbox.Event { return outbox.Event{AggregateType: "o", AggregateID: id, Type: "t"} }
	refused := errors.New("refused")

	pgxUnit := func(id string, result error) error {
		return outbox.InTx(t.Context(), conn, func(tx pgx.Tx, unit *outbox.Unit) error {
			unit.Add(event(id), event(id+"b"))
			_, err := tx.Exec(t.Context(), `INSERT INTO done VALUES ($1)`, id)
			return errors.Join(err, result)
		})
	}
	sqlUnit := func(id string, result error) error {
		return outbox.Outbox{}.InSQLTx(t.Context(), db, nil, func(tx *sql.Tx, unit *outbox.Unit) error {
			unit.Add(event(id))
			_, err := tx.ExecContext(t.Context(), `INSERT INTO done VALUES ($1)`, id)
			return errors.Join(err, result)
		})
	}
	for _, c := range []struct{ err, want error }{
		{pgxUnit("1", nil), nil}, {pgxUnit("2", refused), refused}, {sqlUnit("3", nil), nil}, {sqlUnit("4", refused), refused},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("got %v, want %v", c.err, c.want)
		}
	}
	if err := pgxUnit("", nil); err == nil { // an event without a key
		t.Error("a unit with an event that cannot be written was committed")
	}
	got := lines(t, url, `SELECT id FROM done UNION ALL SELECT 'event ' || aggregateid FROM outbox ORDER BY 1`)
	if want := []string{"1", "3", "event 1", "event 1b", "event 3"}; !cmp.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWithoutTrace(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, wide)
	ctx := outbox.WithTraceParent(t.Context(), "00-garbage")
	err := withPgx(t, url, func(tx outbox.Tx) error {
		return wideOutbox.Insert(ctx, tx, outbox.Event{AggregateType: "o", AggregateID: "1", Type: "t"})
	})
	if got := lines(t, url, `SELECT coalesce(trace, 'NULL') FROM "My Events"`); err != nil || !cmp.Equal(got, []string{"NULL"}) {
		t.Error(got, err)
	}
}

func withPgx(t *testing.T, url string, do func(outbox.Tx) error) error {
	return pgx.BeginFunc(t.Context(), connect(t, url), func(tx pgx.Tx) error { return do(tx) })
}

func withSQL(driver string) func(*testing.T, string, func(outbox.Tx) error) error {
	return func(t *testing.T, url string, do func(outbox.Tx) error) error {
		tx, err := open(t, driver, url).BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		if err := do(outbox.SQL(tx)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}

func open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
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

func lines(t *testing.T, url, query string) []string {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}
