package replication

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// What the catalog says of a table is what the stream says before its first row, for every kind of table.
func TestFindTableEqualsTheStream(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		conn := connectSQL(t, url)
		name := slotName(t)
		pgtest.Exec(t, url,
			`CREATE DOMAIN public.label AS varchar(20)`, `CREATE DOMAIN public.short AS public.label`,
			`CREATE TABLE public.plain (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), gone int, amount numeric(10,2) NOT NULL DEFAULT 1,
				tag public.short, twice numeric GENERATED ALWAYS AS (amount * 2) STORED)`,
			`ALTER TABLE public.plain DROP COLUMN gone`,
			`CREATE SCHEMA "Über uns"`, `CREATE TABLE "Über uns"."Post.ausgang" ("Schlüssel" text, "a ""b""" text)`,
			`CREATE TABLE public.whole (a int, b text)`, `ALTER TABLE public.whole REPLICA IDENTITY FULL`,
			`CREATE TABLE public.indexed (a int NOT NULL UNIQUE, b text PRIMARY KEY)`,
			`ALTER TABLE public.indexed REPLICA IDENTITY USING INDEX indexed_a_key`,
			`CREATE TABLE public.parts (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)`,
			`CREATE TABLE public.part1 (at date NOT NULL, other int, id int NOT NULL)`,
			`ALTER TABLE public.part1 DROP COLUMN other`,
			`ALTER TABLE public.parts ATTACH PARTITION public.part1 FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')`,
		)
		names := []string{"public.plain", "Über uns.Post.ausgang", "public.whole", "public.indexed", "public.parts"}
		tables := make([]*Table, len(names))
		for i, name := range names {
			table, err := FindTable(t.Context(), conn, name)
			if err != nil || table == nil {
				t.Fatalf("%s: %v, %v", name, table, err)
			}
			if table.Name() != name {
				t.Errorf("%s is called %s", name, table.Name())
			}
			tables[i] = table
		}
		if err := CreatePublication(t.Context(), conn, name, tables); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, url, `SELECT pg_create_logical_replication_slot('`+name+`', 'pgoutput')`,
			`INSERT INTO public.plain DEFAULT VALUES`, `INSERT INTO "Über uns"."Post.ausgang" VALUES ('x')`,
			`INSERT INTO public.whole VALUES (1)`, `INSERT INTO public.indexed VALUES (1, 'b')`,
			`INSERT INTO public.parts VALUES (1, '2026-06-01')`)

		stream := start(t, Config{URL: url}, name)
		described := streamed(t, stream, len(tables))
		for _, table := range tables {
			if diff := cmp.Diff(table.Relation, described[table.Name()]); diff != "" {
				t.Errorf("%s (-catalog +stream):\n%s", table.Name(), diff)
			}
			if table.Partitioned != (table.Name() == "public.parts") {
				t.Errorf("%s: partitioned is %v", table.Name(), table.Partitioned)
			}
		}
		if diff := cmp.Diff(map[string]bool{"id": true, "amount": true}, tables[0].Known.NotNull); diff != "" {
			t.Errorf("not null (-want +got):\n%s", diff)
		}
	})
}

// streamed decodes until rows came, and returns the relations of those rows by name.
func streamed(t *testing.T, stream *Stream, rows int) map[string]*decoder.Relation {
	t.Helper()
	d := decoder.New()
	found := map[string]*decoder.Relation{}
	for rows > 0 {
		frame, ok, err := stream.Next(soon())
		if err != nil || !ok {
			t.Fatalf("%d rows are missing: %v", rows, err)
		}
		if frame.Keepalive {
			continue
		}
		kind, err := d.Decode(frame.Data)
		if err != nil {
			t.Fatal(err)
		}
		if kind == decoder.KindInsert {
			found[d.Row.Relation.Namespace+"."+d.Row.Relation.Name] = d.Row.Relation
			rows--
		}
	}
	return found
}

// Whatever has no inserts in the WAL cannot be an outbox.
func TestFindTableRefuses(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		conn := connectSQL(t, url)
		pgtest.Exec(t, url,
			`CREATE UNLOGGED TABLE public.unlogged (id int)`,
			`CREATE VIEW public.view AS SELECT 1 AS id`,
			`CREATE MATERIALIZED VIEW public.materialized AS SELECT 1 AS id`,
			`CREATE TABLE public.parts (id int) PARTITION BY LIST (id)`,
			`CREATE TABLE public.logged PARTITION OF public.parts FOR VALUES IN (1)`,
			`CREATE UNLOGGED TABLE public.fast PARTITION OF public.parts FOR VALUES IN (2)`,
		)
		for name, want := range map[string]string{
			"public.unlogged":     "SET LOGGED",
			"public.view":         "is not a table",
			"public.materialized": "is not a table",
			"public.parts":        "partition fast of table public.parts is unlogged",
			"outbox":              "schema.table",
			`"public"."outbox"`:   "without quotes",
			".outbox":             "schema.table",
		} {
			table, err := FindTable(t.Context(), conn, name)
			if table != nil {
				t.Errorf("%s was taken", name)
			}
			wantSetupError(t, err, want)
		}
		if table, err := FindTable(t.Context(), conn, "public.absent"); table != nil || err != nil {
			t.Errorf("an absent table: %v, %v; want neither", table, err)
		}
	})
}

func TestLooksLikeOutbox(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	conn := connectSQL(t, url)
	pgtest.Exec(t, url,
		`CREATE SCHEMA "Sales"`,
		`CREATE TABLE "Sales"."Outbox" (payload text, type text, aggregateid text, aggregatetype text, more int)`,
		`CREATE TABLE public.events (id int, aggregate_type text, aggregate_id text, event_type text, payload jsonb)
			PARTITION BY LIST (id)`,
		`CREATE TABLE public.events_1 PARTITION OF public.events FOR VALUES IN (1)`,
		`CREATE TABLE public.mixed (aggregate_type text, aggregateid text, type text, payload text)`,
		`CREATE UNLOGGED TABLE public.unlogged (payload text, type text, aggregateid text, aggregatetype text)`,
		`CREATE VIEW public.view AS SELECT * FROM "Sales"."Outbox"`,
	)
	got, err := LooksLikeOutbox(t.Context(), conn, "public.Mixed")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Sales.Outbox", "public.events", "public.mixed"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
