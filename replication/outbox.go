package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
)

// DefaultTable is the outbox table where none is configured.
const DefaultTable = "public.outbox"

// Table is an outbox table as the catalog has it.
type Table struct {
	// Relation is the table as the stream will describe it before its first row, so that a mapping can be checked
	// before the stream starts.
	Relation *decoder.Relation
	// Partitioned: the rows are in partitions, and come under this table only with publish_via_partition_root.
	Partitioned bool
	// Known is what the stream does not say of its columns.
	Known Known
}

// Name is schema.table, as it is written in the configuration.
func (t *Table) Name() string { return t.Relation.Namespace + "." + t.Relation.Name }

// sql is the name quoted for a statement.
func (t *Table) sql() string { return pgx.Identifier{t.Relation.Namespace, t.Relation.Name}.Sanitize() }

// splitName splits a name as the configuration has it: schema.table as the catalog has them, case included,
// without quotes. The first dot divides.
func splitName(name string) (schema, table string, err error) {
	schema, table, ok := strings.Cut(name, ".")
	if !ok || schema == "" || table == "" || strings.HasPrefix(name, `"`) {
		return "", "", &SetupError{
			Code:    fault.TableMissing,
			Problem: fmt.Sprintf("table name %s cannot be read", name),
			Remedy:  "write schema.table exactly as they are stored, without quotes, such as " + DefaultTable,
		}
	}
	return schema, table, nil
}

// The columns are those that pgoutput sends of an insert: neither dropped nor generated ones. The key is the
// replica identity: d the primary key, i an index, f every column.
const tableSQL = `
	SELECT c.oid, c.relreplident::text, c.relkind::text, c.relpersistence::text,
	       coalesce((SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', a.atttypid::bigint,
	              'modifier', a.atttypmod, 'key', c.relreplident = 'f' OR coalesce(a.attnum = ANY (i.indkey), false))
	              ORDER BY a.attnum)
	        FROM pg_attribute a
	        LEFT JOIN pg_index i ON i.indrelid = c.oid
	              AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident)
	        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''), '[]'),
	       (SELECT coalesce(min(p.relid::regclass::text), '')
	        FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid
	        WHERE p.isleaf AND c.relkind = 'p' AND (l.relpersistence = 'u' OR l.relkind = 'f'))
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relname = $2`

// FindTable looks up schema.table (see splitName) and checks that its inserts reach the WAL: an ordinary or
// partitioned table, not unlogged. Nil when there is none of that name.
func FindTable(ctx context.Context, conn *pgx.Conn, name string) (*Table, error) {
	schema, table, err := splitName(name)
	if err != nil {
		return nil, err
	}
	t := &Table{Relation: &decoder.Relation{Namespace: schema, Name: table}}
	var identity, kind, persistence, unlogged string
	var columns []byte
	err = conn.QueryRow(ctx, tableSQL, schema, table).
		Scan(&t.Relation.ID, &identity, &kind, &persistence, &columns, &unlogged)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(columns, &t.Relation.Columns)
	}
	if err == nil {
		t.Known, err = Describe(ctx, conn, t.Relation)
	}
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", name, err)
	}
	t.Relation.Identity = identity[0]
	t.Partitioned = kind == "p"
	if err := t.inWAL(kind, persistence, unlogged); err != nil {
		return nil, err
	}
	return t, nil
}

// inWAL checks what the catalog says of kind and persistence (pg_class.relkind, relpersistence), and of a partition
// that is not written to the WAL.
func (t *Table) inWAL(kind, persistence, unlogged string) error {
	switch {
	case kind != "r" && kind != "p":
		return &SetupError{
			Code:    fault.TableKind,
			Problem: fmt.Sprintf("%s is not a table (relkind %s); only inserts into tables are in the WAL", t.Name(), kind),
			Remedy:  "name the table that the rows are inserted into",
		}
	case persistence == "u":
		return &SetupError{
			Code:    fault.TableKind,
			Problem: fmt.Sprintf("table %s is unlogged; its rows are not in the WAL", t.Name()),
			Remedy:  "ALTER TABLE " + t.sql() + " SET LOGGED;",
		}
	case persistence == "t":
		return &SetupError{
			Code:    fault.TableKind,
			Problem: fmt.Sprintf("table %s is temporary; its rows are not in the WAL", t.Name()),
			Remedy:  "name an ordinary table",
		}
	case unlogged != "":
		return &SetupError{
			Code:    fault.TableKind,
			Problem: fmt.Sprintf("partition %s of table %s is unlogged or foreign; its rows are not in the WAL", unlogged, t.Name()),
			Remedy:  "ALTER TABLE " + unlogged + " SET LOGGED; or detach it",
		}
	}
	return nil
}

// LooksLikeOutbox lists the tables of the database (schema.table) that may be meant by a name that no table has: it may be
// written in other letters (unquoted names are stored in small ones), or the table may have the columns of an outbox, by
// Debezium's names or by snake-case ones.
func LooksLikeOutbox(ctx context.Context, conn *pgx.Conn, name string) ([]string, error) {
	rows, err := conn.Query(ctx, `
		SELECT n.nspname || '.' || c.relname
		FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
		GROUP BY c.oid, n.nspname, c.relname
		HAVING array_agg(a.attname::text) @> ARRAY['aggregatetype', 'aggregateid', 'type', 'payload']
		    OR array_agg(a.attname::text) @> ARRAY['aggregate_type', 'aggregate_id', 'event_type', 'payload']
		    OR lower(n.nspname || '.' || c.relname) = lower($1)
		ORDER BY 1`, name)
	if err != nil {
		return nil, fmt.Errorf("look for outbox tables: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for outbox tables: %w", err)
	}
	return names, nil
}

// absentError is for a table that does not exist; similar are those that may be meant. create tells whether walrelay
// init would make it.
func absentError(name string, similar []string, create bool) error {
	remedy := "name the table in the setting tables"
	switch {
	case len(similar) > 0:
		remedy = "name one in the setting tables, case included; these may be meant: " + strings.Join(similar, ", ")
	case create:
		remedy = "walrelay init creates it; or name yours in the setting tables"
	}
	return &SetupError{Code: fault.TableMissing, Problem: fmt.Sprintf("outbox table %s does not exist", name), Remedy: remedy}
}
