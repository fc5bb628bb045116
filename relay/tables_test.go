package relay

import (
	"fmt"
	"testing"

	"github.com/walrelay/walrelay/internal/faultconn"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/router"
)

// Several outboxes, each with its own shape and mapping and under names of every kind, go through one slot; what two of
// them send to one topic stands there in commit order.
func TestSeveralTables(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		w.exec(loadSQL)
		w.exec(`drop table outbox; create schema "Über uns"; create domain "Über uns"."Schlüssel" as text;
			create table outbox (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb);
			create table "Über uns"."Post.Ausgang" ("Nr" uuid, "Art" text, "Der Schlüssel" "Über uns"."Schlüssel", "Inhalt, 'roh'" bytea);
			create table public."Outbox" (id uuid, aggregate_type text, aggregate_id text, event_type text, payload text, created_at timestamptz default now());
			create table public."OUTBOX" (body json, kind text, who text, id uuid);
			create table public.audit (id int)`)
		cfg := w.config()
		cfg.Tables = []Table{
			{Name: "public.outbox"},
			{Name: "Über uns.Post.Ausgang", Route: router.Config{
				Columns: router.Columns{ID: "Nr", Key: "Der Schlüssel", Payload: "Inhalt, 'roh'"},
				Route:   router.Routing{Field: "Art", Regex: "(.).*", Replacement: "post.$1"},
			}},
			{Name: "public.Outbox"},
			{Name: "public.OUTBOX", Route: router.Config{
				Columns: router.Columns{ID: "id", Key: "who", Payload: "body"}, Route: router.Routing{Field: "kind", Replacement: "outbox.event.order"},
				Value: router.ValueFormat{Format: "json", Expand: true},
			}},
		}
		var dialer faultconn.Dialer
		cfg.Postgres.Dial = dialer.DialContext
		r := w.start(cfg)
		r.state(Streaming)
		l := w.startLoad([]outboxOf{
			{`insert into outbox values ($1, 'order', $2, 't', jsonb_build_object('n', 7, 's', $3::bigint))`, "outbox.event.order"},
			{`insert into "Über uns"."Post.Ausgang" values ($1, 'Brief', $2, convert_to('7 ' || $3::bigint, 'UTF8'))`, "post.B"},
			{`insert into "Outbox" values ($1, 'order', $2, 't', '7 ' || $3::bigint)`, "outbox.event.order"},
			{`insert into "OUTBOX" values (json_build_array(7, $3::bigint), 'x', $2, $1)`, "outbox.event.order"},
		}, `insert into audit values (1)`)
		for n := range 4 {
			w.written(250 * (n + 1))
			dialer.Cut()
		}
		w.audited(l, r)
	})
}

// Partitions are made, attached, written to directly, detached and dropped while rows come; all rows come under the root.
func TestPartitionsUnderLoad(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		w.exec(loadSQL)
		w.exec(`drop table outbox; create table outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb, part int default 0)
			partition by list (part);
			create table part_0 partition of outbox for values in (0);
			create table part_1 partition of outbox for values in (1) partition by list (aggregateid);
			create table part_1_rest partition of part_1 default;
			create sequence current_part start 0 minvalue 0;
			select nextval('current_part')`)
		r := w.start(w.config())
		r.state(Streaming)
		const columns = `(id, aggregatetype, aggregateid, type, payload, part)`
		l := w.startLoad([]outboxOf{
			{`insert into outbox ` + columns + ` select $1, 'order', $2, 't', jsonb_build_object('n', 7, 's', $3::bigint), last_value from current_part`, "outbox.event.order"},
			{`insert into outbox ` + columns + ` values ($1, 'order', $2, 't', jsonb_build_object('n', 7, 's', $3::bigint), 1)`, "outbox.event.order"},
			{`insert into part_1_rest ` + columns + ` values ($1, 'order', $2, 't', jsonb_build_object('n', 7, 's', $3::bigint), 1)`, "outbox.event.order"},
			{`insert into part_0 ` + columns + ` values ($1, 'order', $2, 't', jsonb_build_object('n', 7, 's', $3::bigint), 0)`, "outbox.event.order"},
		})
		for n := 2; n < 12; n++ {
			w.written(60 * n)
			// the new one has its columns in another order
			w.exec(fmt.Sprintf(`create table part_%d (part int, junk text, payload jsonb, type text, aggregateid text, aggregatetype text, id uuid)`, n))
			w.exec(fmt.Sprintf(`alter table part_%d drop column junk`, n))
			if s.Version() != "14" { // see firstToForget
				w.exec(fmt.Sprintf(`insert into part_%d values (%[1]d, '{}', 't', 'k', 'early', null)`, n)) // not of the outbox yet
			}
			w.exec(fmt.Sprintf(`alter table outbox attach partition part_%d for values in (%[1]d)`, n))
			w.exec(fmt.Sprintf(`select setval('current_part', %d)`, n))
			if n < 4 {
				continue
			}
			gone := n - 2 // nobody writes to it any more
			switch n % 3 {
			case 0:
				w.exec(fmt.Sprintf(`drop table part_%d`, gone))
			case 1:
				w.exec(fmt.Sprintf(`alter table outbox detach partition part_%d; drop table part_%[1]d`, gone))
			case 2:
				w.exec(fmt.Sprintf(`alter table outbox detach partition part_%d concurrently`, gone))
				if s.Version() != "14" {
					w.exec(fmt.Sprintf(`insert into part_%d select %[1]d, '{}', 't', 'k', 'late', null`, gone)) // not any more
				}
			}
		}
		w.written(1000)
		w.audited(l, r)
	})
}
