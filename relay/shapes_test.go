package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// shapeChange is a table that changes between its rows.
type shapeChange struct {
	name  string
	route router.Config
	sql   []string // statements; those that begin with "values" are rows
	want  []string // records: key, value, and headers but for id and position
	stop  string   // in the error that ends the relay; empty: it goes on
}

// The default shape is outboxSQL with a column in front, so that what moves is seen.
const shapedSQL = `create table outbox (filler text default 'filler', id bigint primary key, aggregatetype text not null,
	aggregateid text not null, type text not null, payload jsonb)`

func placed(columns ...string) router.Config {
	return router.Config{Placements: []string{strings.Join(columns, ":header,") + ":header"}, MissingColumn: "ignore"}
}

func typed(columns ...string) router.Config {
	c := placed(columns...)
	c.Headers.Format = "json" // shows what a value was taken for
	return c
}

var shapeChanges = []shapeChange{
	{
		name: "add", route: placed("tenant"),
		sql: []string{
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox add column tenant text default 'none'`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (2, 'order', 'b', 't', '2')`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload, tenant) values (3, 'order', 'c', 't', '3', null)`,
		},
		want: []string{"a 1", "b 2 tenant=none", "c 3 tenant=NULL"},
	},
	{
		name: "drop what is not used", route: placed("tenant"),
		sql: []string{
			`alter table outbox add column tenant text default 'none'`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox drop column filler`,
			`insert into outbox values (2, 'order', 'b', 't', '2')`,
			`alter table outbox drop column tenant, add column other text default 'other'`,
			`insert into outbox values (3, 'order', 'c', 't', '3')`,
			`alter table outbox drop column type`,
			`insert into outbox values (4, 'order', 'd', '4')`,
		},
		want: []string{"a 1 tenant=none", "b 2 tenant=none", "c 3", "d 4"},
	},
	{
		name: "drop what is used",
		sql: []string{
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox drop column aggregateid`,
			`insert into outbox (id, aggregatetype, type, payload) values (2, 'order', 't', '2')`,
			`insert into outbox (id, aggregatetype, type, payload) values (3, 'order', 't', '3')`,
		},
		want: []string{"a 1"},
		stop: `columns.key: no column "aggregateid"`,
	},
	{
		name: "rename what is used",
		sql: []string{
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox rename column payload to body`,
			`insert into outbox (id, aggregatetype, aggregateid, type, body) values (2, 'order', 'b', 't', '2')`,
		},
		want: []string{"a 1"},
		stop: `columns.payload: no column "payload"`,
	},
	{
		name: "swap names", route: placed("type"),
		sql: []string{
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox rename column type to other`,
			`alter table outbox rename column aggregateid to type`,
			`alter table outbox rename column other to aggregateid`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (2, 'order', 'b', 't', '2')`,
		},
		want: []string{"a 1 type=t", "b 2 type=t"},
	},
	{
		name: "from one preset to the other",
		sql: []string{
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox rename column aggregatetype to aggregate_type`,
			`alter table outbox rename column aggregateid to aggregate_id`,
			`insert into outbox (id, aggregate_type, aggregate_id, type, payload) values (2, 'order', 'b', 't', '2')`,
		},
		want: []string{"a 1", "b 2"},
	},
	{
		name: "retype", route: typed("n", "id"),
		sql: []string{
			`alter table outbox add column n integer default 7`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '{"p": 1}')`,
			`alter table outbox alter column n drop default, alter column n type boolean using true, alter column payload type bytea using '\x00', alter column id type text`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload, n) values ('2', 'order', 'b', 't', '\xff00ff', true)`,
			`alter table outbox alter column n type double precision using 0.5, alter column payload type text using 'x', alter column aggregateid type uuid using gen_random_uuid()`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload, n) values ('3', 'order', '0f8fad5b-d9cb-469f-a165-70867728950e', 't', 'plain', 1e7)`,
		},
		want: []string{`a {"p": 1} n=7 id=1`, "b \xff\x00\xff n=true id=\"2\"", `0f8fad5b-d9cb-469f-a165-70867728950e plain n=1.0E7 id="3"`},
	},
	{
		name: "retype to what has no meaning", route: router.Config{Columns: router.Columns{Timestamp: "at"}},
		sql: []string{
			`alter table outbox add column at timestamptz default '2026-01-01 00:00:00Z'`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`alter table outbox alter column at drop default, alter column at type text`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (2, 'order', 'b', 't', '2')`,
		},
		want: []string{"a 1"},
		stop: `columns.timestamp: column "at" must be of type`,
	},
	{
		name: "types of the user's, made on the way", route: typed("v", "list"),
		sql: []string{
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (1, 'order', 'a', 't', '1')`,
			`create domain amount as integer; create domain flag as boolean; create domain flags as flag[]; create type mood as enum ('sad', 'glad')`,
			`alter table outbox add column v amount default 7, add column list amount[] default '{1,2}'`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (2, 'order', 'b', 't', '2')`,
			`alter table outbox drop column v, drop column list, add column v flag default true, add column list flags default '{t,f}'`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (3, 'order', 'c', 't', '3')`,
			`alter table outbox drop column v, add column v mood default 'glad'`,
			`insert into outbox (id, aggregatetype, aggregateid, type, payload) values (4, 'order', 'd', 't', '4')`,
		},
		want: []string{"a 1", "b 2 v=7 list=[1,2]", "c 3 v=true list=[true,false]", `d 4 v="glad" list=[true,false]`},
	},
}

// Columns are added, dropped, renamed and retyped between the rows: each row has the meaning of its own moment, or the
// relay stops before it. It is the same whether the statements are transactions of their own, one transaction, or read
// when all is over.
func TestShapeChanges(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		for _, c := range shapeChanges {
			for _, way := range []string{"one by one", "in one transaction", "behind"} {
				t.Run(c.name+"/"+way, func(t *testing.T) {
					t.Parallel()
					c.run(t, s, way)
				})
			}
		}
	})
}

func (c shapeChange) run(t *testing.T, s *pgtest.Server, way string) {
	w := newWorld(t, s)
	w.exec("drop table outbox")
	w.exec(shapedSQL)
	cfg := w.config()
	cfg.Tables = []Table{{Name: "public.outbox", Route: c.route}}
	if strings.HasPrefix(c.name, "retype to") { // the column must be there at the start
		w.exec(c.sql[0])
		c.sql = c.sql[1:]
	}
	r := w.start(cfg)
	r.state(Streaming)
	if way == "behind" { // it is paused, and reads them all at the end
		w.pauseRelay(r)
	}
	if way == "in one transaction" {
		w.exec("begin; " + strings.Join(c.sql, "; ") + "; commit")
	} else {
		for _, sql := range c.sql {
			w.exec(sql)
		}
	}
	if way == "behind" {
		w.resumeRelay(r)
	}
	if c.stop == "" {
		w.caughtUp(r)
	} else {
		r.stops(c.stop)
	}
	if diff := gocmp.Diff(c.want, described(w.records())); diff != "" {
		t.Error(diff)
	}
}

// caughtUp waits until everything that was committed is read, acknowledged and saved.
func (w *world) caughtUp(r *running) {
	w.t.Helper()
	var text string
	if err := w.db.QueryRow(w.t.Context(), "select pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	end, err := lsn.ParseEnd(text)
	if err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "caught up to "+text, func() bool {
		select {
		case err := <-r.done:
			r.done <- err
			w.t.Fatalf("the relay has ended: %v", err)
		default:
		}
		confirmed, err := lsn.ParseEnd(r.Status().Confirmed)
		return err == nil && confirmed >= end
	})
}

// described is what the records are, in the order of their ids.
func described(records []kafkatest.Record) []string {
	id := func(r kafkatest.Record) string { return strings.Trim(header(r, "id"), `"`) }
	slices.SortFunc(records, func(a, b kafkatest.Record) int { return cmp.Compare(id(a), id(b)) })
	var all []string
	for _, record := range records {
		text := fmt.Sprintf("%s %s", record.Key, record.Value)
		for i, h := range record.Headers {
			value := string(h.Value)
			if h.Value == nil {
				value = "NULL"
			}
			if i > 0 && h.Name != router.HeaderPosition {
				text += fmt.Sprintf(" %s=%s", h.Name, value)
			}
		}
		all = append(all, text)
	}
	return all
}

func (w *world) request(kind string) {
	w.exec("insert into walrelay.request (slot, kind, reason) select slot, $1, 'test' from walrelay.checkpoint", kind)
}

func (w *world) pauseRelay(r *running) { w.request("pause"); r.state(Paused) }

func (w *world) resumeRelay(*running) { w.request("resume") }

// A type that is gone when its rows are read has no meaning any more: the relay stops, unless it knows the type from before,
// or nothing is made of the column.
func TestDroppedType(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		cfg := w.config()
		cfg.Tables = []Table{{Name: "public.outbox", Route: typed("v")}}
		insertAndDrop := func() {
			w.exec("create domain amount as integer; alter table outbox add column v amount default 7")
			w.insert(1)
			w.exec("alter table outbox drop column v; drop domain amount")
		}
		w.exec("create domain amount as integer; alter table outbox add column v amount default 7")
		r := w.start(cfg)
		r.state(Streaming)
		w.insert(1)
		w.delivered()
		w.pauseRelay(r)
		w.insert(1)
		w.exec("alter table outbox drop column v; drop domain amount")
		w.resumeRelay(r)
		for i, record := range w.delivered() {
			if header(record, "v") != "7" {
				t.Errorf("record %d: v is %q", i, header(record, "v"))
			}
		}
		w.caughtUp(r)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		insertAndDrop()
		w.start(cfg).stops("does not exist any more")
		cfg.Tables[0].Route.Placements = nil
		r = w.start(cfg)
		w.insert(1)
		w.caughtUp(r)
		if records := w.delivered(); len(records) != 4 {
			t.Errorf("%d records", len(records))
		}
	})
}

// After a rename the configuration is mended, and nothing before or behind it is lost or comes twice.
func TestRenameIsMended(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		r := w.start(w.config())
		r.state(Streaming)
		w.insert(50)
		w.exec("alter table outbox rename column payload to body")
		w.exec("insert into outbox (id, aggregatetype, aggregateid, type, body) values (50, 'order', 'k1', 't', '{\"n\": 50}')")
		w.next++
		r.stops("payload")
		cfg := w.config()
		cfg.Tables = []Table{{Name: "public.outbox", Route: router.Config{Columns: router.Columns{Payload: "body"}}}}
		r = w.start(cfg)
		w.caughtUp(r)
		if records := w.delivered(); len(records) != w.next {
			t.Errorf("%d records of %d", len(records), w.next)
		}
	})
}

// While the catalog cannot be asked the relay waits, is not ready, and says why.
func TestCatalogIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("create domain amount as integer; alter table outbox add column v amount default 7")
	cfg := w.config()
	cfg.Tables = []Table{{Name: "public.outbox", Route: typed("v")}}
	var away atomic.Bool
	cfg.Postgres.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, errors.New("no new connections")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	r := w.start(cfg)
	r.state(Streaming)
	away.Store(true)
	w.insert(5)
	eventually(t, "the reason shows", func() bool { return strings.Contains(r.Status().Reason, "no new connections") })
	if status := r.Status(); status.State != Streaming || status.Ready || len(w.records()) > 0 {
		t.Errorf("%+v, %d records", status, len(w.records()))
	}
	away.Store(false)
	for _, record := range w.delivered() {
		if header(record, "v") != "7" {
			t.Errorf("v is %s", header(record, "v"))
		}
	}
	eventually(t, "ready", func() bool { return r.Status().Ready })
}
