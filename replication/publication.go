package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/fault"
)

// Publication is a publication as the catalog has it.
type Publication struct {
	Name string
	// Insert: it publishes inserts. ViaRoot: rows of partitions come under the partitioned table.
	Insert, ViaRoot bool
	// AllTables: made FOR ALL TABLES.
	AllTables bool

	row     catalogRow
	tables  map[uint32]catalogRow // pg_publication_rel by table
	schemas map[string]catalogRow // pg_publication_namespace by schema; always empty on 14
}

// catalogRow identifies a row of a system catalog: a change of the row changes xmin, a new row has a new oid.
type catalogRow struct {
	oid  uint32
	xmin string
}

func (r catalogRow) String() string { return fmt.Sprintf("%d/%s", r.oid, r.xmin) }

// firstWithSchemas is the first version with FOR TABLES IN SCHEMA.
const firstWithSchemas = 150000

// firstDecodingStandby is the first version whose standbys have logical slots of their own.
const firstDecodingStandby = 160000

// FindPublication looks a publication up. Nil when there is none. version is Server.Version.
func FindPublication(ctx context.Context, conn *pgx.Conn, version int, name string) (*Publication, error) {
	p := &Publication{Name: name, tables: map[uint32]catalogRow{}, schemas: map[string]catalogRow{}}
	err := conn.QueryRow(ctx, `
		SELECT oid, xmin::text, pubinsert, pubviaroot, puballtables FROM pg_publication WHERE pubname = $1`, name).
		Scan(&p.row.oid, &p.row.xmin, &p.Insert, &p.ViaRoot, &p.AllTables)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = collect(ctx, conn, p.tables, `
			SELECT prrelid, oid, xmin::text FROM pg_publication_rel WHERE prpubid = $1`, p.row.oid)
	}
	if err == nil && version >= firstWithSchemas {
		err = collect(ctx, conn, p.schemas, `
			SELECT n.nspname, s.oid, s.xmin::text
			FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid WHERE pnpubid = $1`, p.row.oid)
	}
	if err != nil {
		return nil, fmt.Errorf("look up publication %s: %w", name, err)
	}
	return p, nil
}

// collect fills rows from a query of key, oid and xmin.
func collect[K comparable](ctx context.Context, conn *pgx.Conn, rows map[K]catalogRow, sql string, args ...any) error {
	result, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var key K
	var row catalogRow
	_, err = pgx.ForEachRow(result, []any{&key, &row.oid, &row.xmin}, func() error {
		rows[key] = row
		return nil
	})
	return err
}

// Carries checks that inserts into each of the tables come through the publication, under the table's own name.
func (p *Publication) Carries(tables []*Table) error {
	name := quote(p.Name)
	if !p.Insert {
		return &SetupError{
			Code:    fault.Publication,
			Problem: fmt.Sprintf("publication %s does not publish inserts", name),
			Remedy:  fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert');", name),
		}
	}
	for _, t := range tables {
		if p.membership(t) == "" {
			return &SetupError{
				Code:    fault.Publication,
				Problem: fmt.Sprintf("publication %s does not have table %s", name, t.Name()),
				Remedy: fmt.Sprintf("ALTER PUBLICATION %s ADD TABLE %s; (rows inserted before that are not in the stream)",
					name, t.sql()),
			}
		}
		if t.Partitioned && !p.ViaRoot {
			return &SetupError{
				Code: fault.Publication,
				Problem: fmt.Sprintf("publication %s would send the rows of table %s under the names of its partitions",
					name, t.Name()),
				Remedy: fmt.Sprintf("ALTER PUBLICATION %s SET (publish_via_partition_root = true);", name),
			}
		}
	}
	return nil
}

// membership tells by which catalog row the table is in the publication. Empty: it is not.
func (p *Publication) membership(t *Table) string {
	if row, ok := p.tables[t.Relation.ID]; ok {
		return row.String()
	}
	if row, ok := p.schemas[t.Relation.Namespace]; ok {
		return "schema " + row.String()
	}
	if p.AllTables {
		return "all"
	}
	return ""
}

// Fingerprint changes whenever the publication or the place of one of the tables in it was changed, or one was
// made anew under the same name, even if all looks the same again: rows inserted in between are not in the
// stream, and nothing in the stream says so. Other tables of the publication do not count.
func (p *Publication) Fingerprint(tables []*Table) string {
	parts := []string{"publication " + p.row.String()}
	for _, t := range tables {
		parts = append(parts, fmt.Sprintf("table %d in %s", t.Relation.ID, p.membership(t)))
	}
	return strings.Join(parts, ", ")
}

// createPublicationSQL is the statement that makes the publication for the tables. Messages are in every publication, so
// that there may be none.
func createPublicationSQL(name string, tables []string) string {
	members := ""
	if len(tables) > 0 {
		members = " FOR TABLE " + strings.Join(tables, ", ")
	}
	return fmt.Sprintf("CREATE PUBLICATION %s%s WITH (publish = 'insert', publish_via_partition_root = true)", quote(name), members)
}

// CreatePublication makes the publication: inserts only, and rows of partitions under their root. It needs CREATE
// on the database and ownership of the tables.
func CreatePublication(ctx context.Context, conn *pgx.Conn, name string, tables []*Table) error {
	quoted := make([]string, len(tables))
	for i, t := range tables {
		quoted[i] = t.sql()
	}
	if _, err := conn.Exec(ctx, createPublicationSQL(name, quoted)); err != nil {
		return fmt.Errorf("create publication %s: %w", name, err)
	}
	return nil
}

// possibleSubscribers says in words who may read this database's publications beside the slot: other slots, and from
// Postgres 16 on whatever reads a standby, which is not known here. Empty: nobody. A walsender that starts up, such as ours,
// sends nothing yet. A standby that has no slot and is away at this moment is not seen.
func possibleSubscribers(ctx context.Context, conn *pgx.Conn, version int, slot string) (string, error) {
	var readers string
	err := conn.QueryRow(ctx, `
		SELECT coalesce(string_agg('slot ' || slot_name, ', ' ORDER BY slot_name)
		                FILTER (WHERE plugin = 'pgoutput' AND database = current_database() AND slot_name <> $1), '')
		    || CASE WHEN $2 AND (coalesce(bool_or(slot_type = 'physical'), false)
		            OR EXISTS (SELECT FROM pg_stat_replication r WHERE coalesce(r.state, '') NOT IN ('startup', 'backup') AND NOT EXISTS (
		                       SELECT FROM pg_replication_slots l WHERE l.active_pid = r.pid))) THEN ' and readers of a standby' ELSE '' END
		FROM pg_replication_slots`, slot, version >= firstDecodingStandby).Scan(&readers)
	if err != nil {
		return "", fmt.Errorf("look for other slots: %w", err)
	}
	return strings.TrimPrefix(readers, " and "), nil
}

// carriers lists the publications that would take a new table of the schema along by themselves, to subscribers
// that do not have the table and would stop at its first row.
func carriers(ctx context.Context, conn *pgx.Conn, version int, schema string) ([]string, error) {
	sql := `SELECT pubname FROM pg_publication p WHERE (pubinsert OR pubupdate) AND (puballtables`
	if version >= firstWithSchemas {
		sql += ` OR EXISTS (SELECT FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid
			WHERE s.pnpubid = p.oid AND n.nspname = $1)`
	} else {
		sql += ` OR $1::text IS NULL` // the same parameter
	}
	rows, err := conn.Query(ctx, sql+`) ORDER BY 1`, schema)
	if err != nil {
		return nil, fmt.Errorf("look for publications of all tables: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for publications of all tables: %w", err)
	}
	return names, nil
}
