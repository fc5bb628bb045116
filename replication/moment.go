package replication

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

// Moment is the database in one snapshot.
type Moment struct {
	// Oldest is the oldest transaction that runs, Next the first that has not begun. All below Oldest have ended.
	Oldest, Next uint64
	// Time is not later than the snapshot, by the clock of Postgres.
	Time time.Time
	// End is the end of the log behind the snapshot: what has ended in it has its commit record before End.
	End lsn.End
	// Fingerprint is Publication.Fingerprint as of the snapshot. Empty: there is no publication.
	Fingerprint string
}

// Glance looks at the database. Everything in the Moment is of one snapshot: while the fingerprint is the same, all
// transactions below Oldest were decoded with that publication.
func Glance(ctx context.Context, conn *pgx.Conn, version int, publication string, tables []string) (Moment, error) {
	var m Moment
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(pgx.Tx) error {
		if err := m.positions(ctx, conn); err != nil {
			return err
		}
		p, err := FindPublication(ctx, conn, version, publication)
		if err != nil || p == nil {
			return err
		}
		found, err := oids(ctx, conn, tables)
		if err != nil {
			return err
		}
		m.Fingerprint = p.Fingerprint(found)
		return nil
	})
	if err != nil {
		return Moment{}, fmt.Errorf("look at publication %s: %w", publication, err)
	}
	return m, nil
}

// positions reads what the first statement of the transaction has, whose snapshot is taken before it asks for the log.
func (m *Moment) positions(ctx context.Context, conn *pgx.Conn) error {
	var oldest, next, end string
	err := conn.QueryRow(ctx, `SELECT pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text, now(), pg_current_wal_insert_lsn()::text
		FROM pg_current_snapshot() s`).Scan(&oldest, &next, &m.Time, &end)
	if err == nil {
		m.Oldest, err = strconv.ParseUint(oldest, 10, 64)
	}
	if err == nil {
		m.Next, err = strconv.ParseUint(next, 10, 64)
	}
	if err == nil {
		m.End, err = lsn.ParseEnd(end)
	}
	return err
}

// oids are the tables by name, with nothing but their oids; 0 where there is none.
func oids(ctx context.Context, conn *pgx.Conn, names []string) ([]*Table, error) {
	tables := make([]*Table, len(names))
	for i, name := range names {
		schema, table, err := splitName(name)
		if err != nil {
			return nil, err
		}
		relation := &decoder.Relation{Namespace: schema, Name: table}
		err = conn.QueryRow(ctx, `SELECT coalesce((SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relname = $2), 0)`, schema, table).Scan(&relation.ID)
		if err != nil {
			return nil, err
		}
		tables[i] = &Table{Relation: relation}
	}
	return tables, nil
}
