package replication

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// What a type is made of is found to the bottom, whatever it is called, and a type that is gone is absent.
func TestDescribe(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		conn := connectSQL(t, url)
		pgtest.Exec(t, url,
			`CREATE SCHEMA "Typen"`, `CREATE TYPE "Typen"."Größe" AS ENUM ('small', 'it''s, "big"', 'middle')`,
			`ALTER TYPE "Typen"."Größe" ADD VALUE 'tiny' BEFORE 'small'`,
			`CREATE DOMAIN price AS numeric(10,2)`, `CREATE DOMAIN cheap AS price`, `CREATE DOMAIN list AS cheap[]`,
			`CREATE TYPE pair AS (a int, b text)`, `CREATE DOMAIN gone AS int`,
			`CREATE TABLE public.t (id bigint PRIMARY KEY, size "Typen"."Größe" NOT NULL, sizes "Typen"."Größe"[], cheap cheap, list list,
				pair pair, numbers int[], gone gone)`,
		)
		table, err := FindTable(t.Context(), conn, "public.t")
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, url, `DROP DOMAIN gone CASCADE`)
		known, err := Describe(t.Context(), conn, table.Relation)
		if err != nil {
			t.Fatal(err)
		}
		oid := func(name string) (oid uint32) {
			if err := conn.QueryRow(t.Context(), `SELECT $1::text::regtype::oid`, name).Scan(&oid); err != nil {
				t.Fatal(err)
			}
			return oid
		}
		const numeric, modifier = 1700, 10<<16 + 2 + 4
		want := map[uint32]Type{
			oid(`"Typen"."Größe"`):   {BaseModifier: -1, Labels: []string{"tiny", "small", `it's, "big"`, "middle"}},
			oid(`"Typen"."Größe"[]`): {BaseModifier: -1, Element: oid(`"Typen"."Größe"`)},
			oid("cheap"):             {Base: oid("price"), BaseModifier: -1},
			oid("cheap[]"):           {BaseModifier: -1, Element: oid("cheap")},
			oid("price"):             {Base: numeric, BaseModifier: modifier},
			oid("list"):              {Base: oid("cheap[]"), BaseModifier: -1},
			oid("pair"):              {BaseModifier: -1},
		}
		if diff := cmp.Diff(Known{NotNull: map[string]bool{"id": true, "size": true}, Types: want}, known); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
