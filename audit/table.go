package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// Table is an outbox table and how its rows become records.
type Table struct {
	// Relation is the table as the stream describes it.
	Relation *decoder.Relation
	// Partitioned: its rows are in partitions.
	Partitioned bool
	// Route and Catalog are what the relay binds the relation with.
	Route   router.Config
	Catalog router.Catalog
	// Filter is the row filter of the publication, as SQL. Empty: none.
	Filter string
}

// Name is schema.table.
func (t *Table) Name() string { return t.Relation.Namespace + "." + t.Relation.Name }

// name is the table for a FROM. Tables that inherit from it are published under their own names.
func (t *Table) name() string {
	name := pgx.Identifier{t.Relation.Namespace, t.Relation.Name}.Sanitize()
	if t.Partitioned {
		return name
	}
	return "ONLY " + name
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// Horizon is a moment before which everything is known to be in Kafka, as a snapshot of Postgres has it. The zero
// Horizon knows nothing: every row is a candidate then.
type Horizon struct {
	// XID is the oldest transaction that was running: the transactions below it are in Kafka, whenever they began.
	XID uint64
	// LSN: transactions whose commit record starts at or behind it are not below XID.
	LSN lsn.End
	// Time: and no transaction from XID on was committed before it.
	Time time.Time
}

// Selection chooses rows. The zero Selection chooses all.
type Selection struct {
	// Horizon leaves out what is known to be in Kafka.
	Horizon Horizon
	// Since and Until are bounds of the time of creation, inclusive; zero: none. The table needs a column created_at, or the
	// mapping a timestamp column.
	Since, Until time.Time
	// FirstID and LastID are bounds of the id, inclusive; empty: none.
	FirstID, LastID string
	// IDs, Types and Keys are the ids, event types and record keys that are wanted; empty: all.
	IDs, Types, Keys []string
	// Replay is for Choose; nil: rows that have a record are of no interest.
	Replay *Replay
}

// candidates is the condition that a row's transaction is not older than the horizon. Transaction ids in rows have 32
// bits. A row that is more than 2^31 transactions old is frozen, and its id means nothing; it may look as if it came from
// the future. Savepoints have ids of their own, younger than that of their transaction. Empty: all rows are candidates.
func (h Horizon) candidates(ctx context.Context, tx pgx.Tx) (string, error) {
	if h.XID == 0 {
		return "", nil
	}
	var next string
	var age int64
	err := tx.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text, age($1::text::xid)`,
		strconv.FormatUint(h.XID&0xffffffff, 10)).Scan(&next, &age)
	if err != nil {
		return "", fmt.Errorf("ask for the age of transaction %d: %w", h.XID, err)
	}
	now, err := strconv.ParseUint(next, 10, 64)
	if err != nil {
		return "", fmt.Errorf("ask for the age of transaction %d: %w", h.XID, err)
	}
	const far = 1<<31 - 1<<20
	if h.XID > now || now-h.XID > far || age < 0 { // of another history, or too far back
		return "", nil
	}
	return fmt.Sprintf("age(xmin) BETWEEN 0 AND %d", age), nil
}

// condition is a WHERE clause, empty for all rows, and its parameters.
type condition struct {
	sql  string
	args []string
}

// where is the condition of the selected rows.
func (s Selection) where(t *Table, candidates string) (condition, error) {
	var all, args []string
	if t.Filter != "" {
		all = append(all, "("+t.Filter+")")
	}
	if candidates != "" {
		all = append(all, candidates)
	}
	columns := t.Route.ColumnsOf(t.Relation)
	for _, bound := range []struct {
		sign string
		at   time.Time
	}{{">=", s.Since}, {"<=", s.Until}} {
		if bound.at.IsZero() {
			continue
		}
		name := t.created(columns.Timestamp)
		if name == "" {
			return condition{}, fmt.Errorf("table %s has no column created_at to select by time; select by id", t.Name())
		}
		all = append(all, fmt.Sprintf("%s %s %d", t.micros(name), bound.sign, bound.at.UnixMicro()))
	}
	id := quote(columns.ID)
	switch t.typeOf(columns.ID) {
	case oidInt2, oidInt4, oidInt8, oidUUID:
	default: // in the order of bytes, as the ids of records are compared
		id += `::text COLLATE "C"`
	}
	for _, bound := range [][2]string{{" >= ", s.FirstID}, {" <= ", s.LastID}} {
		if bound[1] != "" {
			args = append(args, bound[1])
			all = append(all, fmt.Sprint(id, bound[0], "$", len(args)))
		}
	}
	oneOf := func(sql string, wanted []string) {
		list := make([]string, len(wanted))
		for i, text := range wanted {
			args = append(args, text)
			list[i] = "$" + strconv.Itoa(len(args))
		}
		all = append(all, sql+" IN ("+strings.Join(append(list, "NULL"), ", ")+")")
	}
	if len(s.IDs) > 0 {
		oneOf(id, slices.DeleteFunc(slices.Clone(s.IDs), func(id string) bool { return !t.mayHave(id) }))
	}
	if len(s.Types) > 0 {
		if t.typeOf(columns.Type) == 0 {
			return condition{}, fmt.Errorf("table %s has no column %s to select by type; the setting columns.type names it", t.Name(), columns.Type)
		}
		oneOf(quote(columns.Type)+"::text", s.Types)
	}
	if len(all) == 0 {
		return condition{}, nil
	}
	return condition{" WHERE " + strings.Join(all, " AND "), args}, nil
}

// read hands over the selected rows, every column as the text that the stream would carry, in any order or sorted. The row
// is valid during the call.
func (t *Table) read(ctx context.Context, tx pgx.Tx, where condition, by rank, sorted bool, each func(row *decoder.Row, is standing) error) error {
	args := make([][]byte, len(where.args))
	for i, arg := range where.args {
		args[i] = []byte(arg)
	}
	result := tx.Conn().PgConn().ExecParams(ctx, t.query(where.sql, by, sorted), args, nil, nil, nil)
	row := decoder.Row{Relation: t.Relation, Columns: make([]decoder.Column, len(t.Relation.Columns))}
	var failed error
	for failed == nil && result.NextRow() {
		values := result.Values()
		for i := range row.Columns {
			row.Columns[i] = decoder.Column{Kind: decoder.ColumnText, Data: values[i]}
			if values[i] == nil {
				row.Columns[i].Kind = decoder.ColumnNull
			}
		}
		n := len(row.Columns)
		failed = each(&row, by.standing(values[n:]))
	}
	if failed != nil {
		// What is left would be read and dropped by Close, which may be much.
		_ = tx.Conn().PgConn().Conn().Close()
	}
	if _, err := result.Close(); err != nil && failed == nil {
		return fmt.Errorf("read table %s: %w", t.Name(), err)
	}
	return failed
}

func (t *Table) query(where string, by rank, sorted bool) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, c := range t.Relation.Columns {
		b.WriteString(quote(c.Name) + ", ")
	}
	for i, sql := range []string{by.sql, by.created, by.young} {
		b.WriteString([]string{"", ", "}[min(i, 1)] + cmp.Or(sql, "NULL"))
	}
	b.WriteString(" FROM " + t.name() + where)
	if sorted {
		b.WriteString(" ORDER BY ")
		for _, sql := range by.sort {
			b.WriteString(sql + " NULLS FIRST, ")
		}
		b.WriteString("tableoid, ctid")
	}
	return b.String()
}

// estimate is about how many rows the table has; 0 where nobody knows.
func (t *Table) estimate(ctx context.Context, tx pgx.Tx) (int64, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_class
		WHERE oid = $1 OR oid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass) WHERE isleaf)`, t.Relation.ID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("estimate the size of table %s: %w", t.Name(), err)
	}
	return n, nil
}

// hasOlder tells whether the table still has a row from before the horizon: a sign that rows are kept.
func (t *Table) hasOlder(ctx context.Context, tx pgx.Tx, candidates string) (bool, error) {
	if candidates == "" {
		return false, nil
	}
	var older bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+t.name()+` WHERE NOT (`+candidates+`))`).Scan(&older)
	if err != nil {
		return false, fmt.Errorf("look for older rows of table %s: %w", t.Name(), err)
	}
	return older, nil
}
