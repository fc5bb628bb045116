package replication

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// A publication that will not do is named together with the SQL that mends it; here the SQL is executed and mends it.
func TestPublicationCarries(t *testing.T) {
	tests := []struct {
		name   string
		create string
		want   string // in the error; empty: it will do
	}{
		{"as walrelay makes it", createPublicationSQL("p", []string{"public.plain", "public.parts"}), ""},
		{"all operations", `CREATE PUBLICATION p FOR TABLE public.plain, public.parts WITH (publish_via_partition_root = true)`, ""},
		{"all tables", `CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)`, ""},
		{"no inserts", `CREATE PUBLICATION p FOR TABLE public.plain, public.parts
			WITH (publish = 'update, delete', publish_via_partition_root = true)`, "does not publish inserts"},
		{"table missing", `CREATE PUBLICATION p FOR TABLE public.parts WITH (publish_via_partition_root = true)`,
			"does not have table public.plain"},
		{"names of partitions", `CREATE PUBLICATION p FOR TABLE public.plain, public.parts`, "under the names of its partitions"},
	}
	t.Parallel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, conn, tables := plainAndParts(t, pgtest.Shared(t, ""))
			pgtest.Exec(t, url, test.create)
			err := findPublication(t, conn, "p").Carries(tables)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			setup := wantSetupError(t, err, test.want)
			sql, _, _ := strings.Cut(setup.Remedy, ";")
			pgtest.Exec(t, url, sql)
			if err := findPublication(t, conn, "p").Carries(tables); err != nil {
				t.Errorf("after %s: %v", sql, err)
			}
		})
	}
}

func TestPublicationOfSchema(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		if s.Version() < "15" {
			t.Skip("FOR TABLES IN SCHEMA came with 15")
		}
		t.Parallel()
		url, conn, tables := plainAndParts(t, s)
		pgtest.Exec(t, url, `CREATE PUBLICATION p FOR TABLES IN SCHEMA public WITH (publish_via_partition_root = true)`)
		p := findPublication(t, conn, "p")
		if err := p.Carries(tables); err != nil {
			t.Error(err)
		}
		before := p.Fingerprint(tables)
		pgtest.Exec(t, url, `ALTER PUBLICATION p DROP TABLES IN SCHEMA public`, `ALTER PUBLICATION p ADD TABLES IN SCHEMA public`)
		if after := findPublication(t, conn, "p").Fingerprint(tables); after == before {
			t.Errorf("fingerprint is still %s", after)
		}
	})
}

func TestFingerprint(t *testing.T) {
	create := createPublicationSQL("p", []string{"public.plain", "public.parts"})
	tests := []struct {
		name    string
		sql     []string
		changes bool
	}{
		{"dropped and added again", []string{`ALTER PUBLICATION p DROP TABLE public.plain`, `ALTER PUBLICATION p ADD TABLE public.plain`}, true},
		{"dropped", []string{`ALTER PUBLICATION p DROP TABLE public.plain`}, true},
		{"made anew", []string{`DROP PUBLICATION p`, create}, true},
		{"inserts off and on", []string{`ALTER PUBLICATION p SET (publish = 'update')`, `ALTER PUBLICATION p SET (publish = 'insert')`}, true},
		{"table made anew", []string{`DROP TABLE public.plain`, `CREATE TABLE public.plain (id int)`,
			`ALTER PUBLICATION p ADD TABLE public.plain`}, true},

		{"nothing", nil, false},
		{"rows", []string{`INSERT INTO public.plain VALUES (1)`, `TRUNCATE public.plain`}, false},
		{"another column", []string{`ALTER TABLE public.plain ADD COLUMN more int`}, false},
		{"another partition", []string{`CREATE TABLE public.part2 PARTITION OF public.parts FOR VALUES IN (2)`}, false},
		{"another table", []string{`CREATE TABLE public.more (id int)`, `ALTER PUBLICATION p ADD TABLE public.more`}, false},
		{"another publication", []string{`CREATE PUBLICATION q FOR TABLE public.plain`, `DROP PUBLICATION q`}, false},
		{"freeze", []string{`VACUUM FREEZE pg_publication`, `VACUUM FREEZE pg_publication_rel`}, false},
		{"rewritten catalog", []string{`VACUUM (FULL, FREEZE) pg_publication`, `VACUUM (FULL, FREEZE) pg_publication_rel`}, false},
		{"rewritten table", []string{`VACUUM FULL public.plain`}, false},
	}
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url, conn, _ := plainAndParts(t, s)
		for _, test := range tests { // one after the other in one database
			t.Run(test.name, func(t *testing.T) {
				pgtest.Exec(t, url, create)
				before := findPublication(t, conn, "p").Fingerprint(findTables(t, conn))
				pgtest.Exec(t, url, test.sql...)
				after := findPublication(t, conn, "p").Fingerprint(findTables(t, conn))
				if (before != after) != test.changes {
					t.Errorf("before %s\nafter  %s\nwant a change: %v", before, after, test.changes)
				}
				pgtest.Exec(t, url, `DROP PUBLICATION p`)
			})
		}
	})
}

func TestCarriers(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url, conn, _ := plainAndParts(t, s)
		want := []string{"everything"}
		pgtest.Exec(t, url, `CREATE PUBLICATION everything FOR ALL TABLES`, `CREATE PUBLICATION one FOR TABLE public.plain`,
			`CREATE PUBLICATION truncates FOR ALL TABLES WITH (publish = 'truncate')`)
		if s.Version() >= "15" {
			pgtest.Exec(t, url, `CREATE SCHEMA other`, `CREATE PUBLICATION here FOR TABLES IN SCHEMA public`,
				`CREATE PUBLICATION there FOR TABLES IN SCHEMA other`)
			want = append(want, "here")
		}
		got, err := carriers(t.Context(), conn, version(t, conn), "public")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// plainAndParts is a database with an ordinary and a partitioned table.
func plainAndParts(t *testing.T, s *pgtest.Server) (url string, conn *pgx.Conn, tables []*Table) {
	t.Helper()
	url = s.Database(t)
	conn = connectSQL(t, url)
	pgtest.Exec(t, url, `CREATE TABLE public.plain (id int)`, `CREATE TABLE public.parts (id int) PARTITION BY LIST (id)`,
		`CREATE TABLE public.part1 PARTITION OF public.parts FOR VALUES IN (1)`)
	return url, conn, findTables(t, conn)
}

func findTables(t *testing.T, conn *pgx.Conn) []*Table {
	t.Helper()
	var tables []*Table
	for _, name := range []string{"public.plain", "public.parts"} {
		table, err := FindTable(t.Context(), conn, name)
		if err != nil || table == nil {
			t.Fatalf("%s: %v, %v", name, table, err)
		}
		tables = append(tables, table)
	}
	return tables
}

func findPublication(t *testing.T, conn *pgx.Conn, name string) *Publication {
	t.Helper()
	p, err := FindPublication(t.Context(), conn, version(t, conn), name)
	if err != nil || p == nil {
		t.Fatalf("publication %s: %v, %v", name, p, err)
	}
	return p
}

func version(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	server, err := InspectServer(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return server.Version
}
