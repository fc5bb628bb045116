package audit

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// rankBy is what puts the rows of a table into order. The table itself has none: the commit decides, and rows do not
// know it unless track_commit_timestamp is on. So all but the first are a best effort.
type rankBy byte

const (
	byNothing rankBy = iota
	byCommit         // commit time, µs since 1970
	byNumber         // the id, an integer
	byUUID           // the id, a UUID of version 7, which begins with a time
	byCreated        // the column with the time of creation, µs since 1970
)

// unordered is the order of a row that has none: below all others.
const unordered = math.MinInt64

// rank is how the rows of one table are put into order. A higher number is newer.
type rank struct {
	by      rankBy
	sql     string   // of the order; empty: none
	sort    []string // what to sort by, the order first
	created string   // SQL of the time of commit or creation, µs since 1970; empty: not known
	young   string   // SQL of whether the slot may still send the row; empty: nobody asks
}

// standing is what is known of a row beside its columns.
type standing struct {
	order  int64 // by its rank
	micros int64 // the time of commit or creation, since 1970; unordered where it is not known
	young  bool
}

// Types of id and time columns that can be put into order (src/include/catalog/pg_type.dat).
const (
	oidInt8, oidInt2, oidInt4, oidUUID   = 20, 21, 23, 2950
	oidDate, oidTimestamp, oidTimestampt = 1082, 1114, 1184
)

// rankOf finds out how the selected rows of a table can be put into order.
func rankOf(ctx context.Context, tx pgx.Tx, t *Table, where condition) (rank, error) {
	columns := t.Route.ColumnsOf(t.Relation)
	var r rank
	if name := t.created(columns.Timestamp); name != "" {
		r.created = t.micros(name)
	}
	var commits bool
	if err := tx.QueryRow(ctx, `SELECT current_setting('track_commit_timestamp')::boolean`).Scan(&commits); err != nil {
		return rank{}, fmt.Errorf("ask for track_commit_timestamp: %w", err)
	}
	id := quote(columns.ID)
	switch t.typeOf(columns.ID) {
	case oidInt2, oidInt4, oidInt8:
		r.by, r.sql = byNumber, id+"::bigint"
	case oidUUID:
		var timed bool
		query := fmt.Sprintf(`SELECT coalesce(bool_and(substr(%s::text, 15, 1) = '7'), false) FROM %s%s`, id, t.name(), where.sql)
		if err := tx.QueryRow(ctx, query, anys(where.args)...).Scan(&timed); err != nil {
			return rank{}, fmt.Errorf("look at the ids of table %s: %w", t.Name(), err)
		}
		if timed {
			r.by, r.sql = byUUID, id+"::text"
		}
	}
	if r.by == byNothing && r.created != "" {
		r.by, r.sql = byCreated, r.created
	}
	if r.sql != "" {
		r.sort = append(r.sort, r.sql)
	}
	if r.created != "" {
		r.sort = append(r.sort, r.created)
	}
	if commits {
		const committed = "(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint"
		r.by, r.sql, r.sort = byCommit, committed, append([]string{committed}, r.sort...)
		r.created = committed
		if name := t.created(columns.Timestamp); name != "" { // commits from before the setting have no time
			r.created = "coalesce(" + committed + ", " + t.micros(name) + ")"
		}
	}
	return r, nil
}

func anys(args []string) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return list
}

// created is the column with the time of creation: the mapping's, or the one that is called created_at.
func (t *Table) created(configured string) string {
	for _, name := range []string{configured, "created_at"} {
		switch t.typeOf(name) {
		case oidTimestamp, oidTimestampt, oidDate, oidInt8:
			return name
		}
	}
	return ""
}

// micros is a time column in µs since 1970. An integer counts milliseconds, as in router.Columns. timestamp without time
// zone is UTC there, as the session is.
func (t *Table) micros(name string) string {
	if t.typeOf(name) == oidInt8 {
		return "(" + quote(name) + " * 1000)"
	}
	column := quote(name)
	return "CASE WHEN isfinite(" + column + ") THEN (extract(epoch FROM " + column + "::timestamptz) * 1000000)::bigint END"
}

// typeOf is the oid of a column's type, under its domains; 0 where there is no such column.
func (t *Table) typeOf(name string) uint32 {
	for _, c := range t.Relation.Columns {
		if c.Name != name {
			continue
		}
		oid := c.Type
		for range 32 { // a Catalog that goes in circles
			base := t.Catalog.Types[oid].Base
			if base == 0 {
				break
			}
			oid = base
		}
		return oid
	}
	return 0
}

// standing reads what the query gives behind the columns.
func (r rank) standing(values [][]byte) standing {
	return standing{order: r.ofRow(values[0]), micros: rank{by: byCreated}.ofRow(values[1]), young: string(values[2]) == "t"}
}

// ofRow reads the order from what sql gives.
func (r rank) ofRow(text []byte) int64 {
	if r.by == byUUID {
		return uuidOrder(string(text))
	}
	order, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil { // NULL
		return unordered
	}
	return order
}

// ofRecord is the order of an event whose row is not known.
func (r rank) ofRecord(record *kafka.Record, id lsn.Identity) int64 {
	switch r.by {
	case byNumber:
		return r.ofRow(eventID(record))
	case byUUID:
		return uuidOrder(string(eventID(record)))
	case byCommit, byCreated:
		if text, ok := header(record, router.HeaderTime); ok { // repaired, so the record's own time is later
			if at, err := time.Parse(router.TimeFormat, string(text)); err == nil {
				return at.UnixMicro()
			}
		}
		if id.Time != 0 {
			return id.Time
		}
		return record.Time * 1000
	}
	return unordered
}

// uuidOrder is the first half of a UUID of version 7: 48 bits of milliseconds, and what counts inside one.
func uuidOrder(text string) int64 {
	half, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(half) != 16 {
		return unordered
	}
	order := int64(0)
	for _, b := range half[:8] {
		order = order<<8 | int64(b)
	}
	return order
}
