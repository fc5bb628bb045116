package relay

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/router"
)

// shop is a table of a known shape in an application that is at work on it: its polling relay marks rows as published, its
// cleaner deletes them.
type shop struct {
	preset string
	name   string // of the table
	table  string
	load   outboxOf
	work   []string
	ids    string // header
}

var shops = []shop{
	{
		preset: "debezium", name: "outbox",
		table: `create table outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
			type varchar(255) not null, payload jsonb, published_at timestamptz)`,
		load: outboxOf{`insert into outbox values ($1, 'order', $2, 'Created', jsonb_build_object('n', 7, 's', $3::bigint))`, "outbox.event.order"},
		work: []string{
			`update outbox set published_at = now() where published_at is null`,
			`delete from outbox where published_at is not null`,
		},
		ids: "id",
	},
	{
		preset: "snake", name: "outbox",
		table: `create table outbox (id uuid primary key, aggregate_type text not null, aggregate_id text not null, event_type text not null,
			payload jsonb not null, created_at timestamptz not null default now(), published_at timestamptz)`,
		load: outboxOf{`insert into outbox values ($1, 'order', $2, 'OrderCreated', jsonb_build_object('n', 7, 's', $3::bigint))`, "outbox.event.order"},
		work: []string{
			`update outbox set published_at = now() where published_at is null`,
			`delete from outbox where published_at < now() - interval '100 ms'`,
		},
		ids: "id",
	},
	{
		preset: "snake-polling", name: "outbox",
		table: `create table outbox (id uuid primary key, aggregate_type text not null, aggregate_id text not null, event_type text not null,
			payload jsonb not null, created_at timestamptz not null default now(), published_at timestamptz)`,
		load: outboxOf{`insert into outbox values ($1, 'order', $2, 'OrderCreated', jsonb_build_object('n', 7, 's', $3::bigint))`, "OrderCreated"},
		work: []string{
			`with batch as (select id from outbox where published_at is null order by created_at limit 10 for update skip locked)
				update outbox o set published_at = now() from batch where o.id = batch.id`,
			`delete from outbox where published_at is not null`,
		},
		ids: "event_id",
	},
	{
		preset: "omni-box", name: "outbox_events",
		table: `create table outbox_events (id uuid primary key, event_type text not null, aggregate_type text not null, aggregate_id uuid not null,
			topic text not null, partition_key text not null, payload jsonb not null, headers jsonb not null default '{}', trace_id text,
			idempotency_key text, correlation_id text, causation_id text, schema_version text not null default '1', status text not null default 'pending',
			attempts int not null default 0, scheduled_at timestamptz not null default now(), created_at timestamptz not null default now(), published_at timestamptz)`,
		load: outboxOf{`insert into outbox_events (id, event_type, aggregate_type, aggregate_id, topic, partition_key, payload, headers, trace_id, scheduled_at)
			values ($1, 'OrderCreated', 'order', $1, 'orders.v1', $2, jsonb_build_object('n', 7, 's', $3::bigint), '{"tenant": "t1"}', 'abc', now() + interval '1 day')`, "orders.v1"},
		work: []string{
			`update outbox_events set status = 'processing', attempts = attempts + 1 where status = 'pending'`,
			`update outbox_events set status = 'published', published_at = now() where status = 'processing'`,
			`delete from outbox_events where status = 'published'`,
		},
		ids: "event_id",
	},
}

// What the application does with its rows once they are there makes no events, whatever it is and whenever it comes.
func TestPresets(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		for _, shop := range shops {
			t.Run(shop.preset, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, s)
				w.exec("drop table outbox")
				w.exec(shop.table)
				w.exec(loadSQL)
				cfg := w.config()
				cfg.Tables = []Table{{Name: "public." + shop.name, Route: router.Config{Preset: shop.preset}}}
				r := w.start(cfg)
				r.state(Streaming)
				l := w.startLoad([]outboxOf{shop.load}, shop.work...)
				l.ids = shop.ids
				w.written(400)
				w.audited(l, r)
				if shop.preset != "omni-box" {
					return
				}
				for name, want := range map[string]string{"tenant": "t1", "trace_id": "abc", "schema_version": "1", "event_type": "OrderCreated", "correlation_id": ""} {
					if got := header(w.records()[0], name); got != want {
						t.Errorf("header %s is %q, want %q", name, got, want)
					}
				}
			})
		}
	})
}

// What the filter leaves out is counted, and holds nothing up.
func TestFilter(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		cfg := w.config()
		cfg.Tables = []Table{{Name: "public.outbox", Route: router.Config{Filter: router.Filter{Types: []string{"Created", "Paid"}, Values: []string{"order"}}}}}
		r := w.start(cfg)
		r.state(Streaming)
		w.exec(`insert into outbox values (1, 'order', 'k', 'Created', '{}'), (2, 'order', 'k', 'Seen', '{}'), (3, 'user', 'k', 'Created', '{}'),
			(4, 'order', 'k', 'Paid', '{}')`)
		w.exec(`insert into outbox select n, 'user', 'k', 'Created', '{}' from generate_series(5, 104) n`)
		w.caughtUp(r)
		if got := described(w.records()); len(got) != 2 || header(w.records()[0], "id") != "1" || header(w.records()[1], "id") != "4" {
			t.Errorf("records %q", got)
		}
		eventually(t, "102 are counted", func() bool {
			return testutil.ToFloat64(r.metrics.filtered.WithLabelValues("public.outbox")) == 102
		})
	})
}

// A timestamp that Kafka would not take is replaced by the commit time, and counted.
func TestTimestampIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec(`alter table outbox add column at timestamptz`)
	cfg := w.config()
	cfg.Tables = []Table{{Name: "public.outbox", Route: router.Config{Columns: router.Columns{Timestamp: "at"}}}}
	r := w.start(cfg)
	r.state(Streaming)
	w.exec(`insert into outbox values (1, 'order', 'k', 't', '{}', now() + interval '50 minutes'), (2, 'order', 'k', 't', '{}', now() + interval '61 minutes'),
		(3, 'order', 'k', 't', '{}', '2001-02-03 00:00:00Z'), (4, 'order', 'k', 't', '{}', null), (5, 'order', 'k', 't', '{}', 'infinity')`)
	w.caughtUp(r)
	records := w.records()
	ahead := records[0].Timestamp.Sub(records[3].Timestamp).Round(time.Minute)
	if len(records) != 5 || ahead != 50*time.Minute || records[1].Timestamp != records[3].Timestamp || records[4].Timestamp != records[3].Timestamp ||
		records[2].Timestamp.Year() != 2001 {
		t.Errorf("%v", records)
	}
	eventually(t, "two are counted", func() bool {
		return testutil.ToFloat64(r.metrics.untimely.WithLabelValues("public.outbox")) == 2
	})
}
