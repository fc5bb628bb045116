package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
)

// Handover is the moment in which a new slot starts: what is committed in Snapshot is not sent by the slot, everything
// else is. So somebody who takes care of the rows in the snapshot hands over to the slot without a gap and without
// anything twice.
type Handover struct {
	// Snapshot is to be imported with SET TRANSACTION SNAPSHOT while Fill runs.
	Snapshot string
	// Before is the row as it was, with the horizon from which on rows may be missing. Zero at a first start.
	Before checkpoint.Row
	// Row is what the row becomes when Fill succeeds: LSN is the slot's consistent point, Horizon that of the snapshot.
	// Fill adds KafkaClusterID and ProducerID.
	Row checkpoint.Row
}

// Fill publishes what is committed in the snapshot of a new slot.
type Fill func(ctx context.Context, p Prepared, h *Handover) error

// createSlot makes the slot. No transaction of the horizon's was committed before the time it notes, since a slot's
// snapshot leaves out what began after it was asked for.
func (s *setup) createSlot(ctx context.Context, replica *Conn, failover bool) (h Handover, err error) {
	if failover && s.Server.Version < firstWithFailover {
		return h, &SetupError{Code: fault.SlotFailover, Problem: "failover slots need Postgres 17 or later", Remedy: "leave postgres.failover off"}
	}
	s.o.Report(Step{Text: fmt.Sprintf("creating slot %s; this waits for the write transactions that run, at most %s",
		s.Slot, s.o.SlotTimeout)})
	if err := s.conn.QueryRow(ctx, `SELECT now()`).Scan(&h.Row.Horizon.Time); err != nil {
		return h, fmt.Errorf("ask for the time: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, s.o.SlotTimeout)
	defer cancel()
	h.Row.LSN, h.Snapshot, err = replica.CreateSlot(limited, s.Slot, failover)
	if err != nil {
		return h, s.slotError(ctx, err, limited.Err() != nil && ctx.Err() == nil)
	}
	err = s.inSnapshot(ctx, h.Snapshot, func(pgx.Tx) error {
		var m Moment
		err := m.positions(ctx, s.conn)
		h.Row.Horizon.XID, h.Row.Horizon.LSN = m.Oldest, h.Row.LSN
		return err
	})
	if err != nil {
		return h, s.withdraw(ctx, fmt.Errorf("look into the slot's snapshot: %w", err))
	}
	return h, nil
}

// inSnapshot runs f in a transaction that sees what an exported snapshot has. Row security must not make a table look
// empty: with off, a query that it would filter fails.
func (s *setup) inSnapshot(ctx context.Context, snapshot string, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`SET TRANSACTION SNAPSHOT '%s'; SET LOCAL row_security = off`, snapshot))
		if err != nil {
			return err
		}
		return f(tx)
	})
}

// withdraw drops the slot again, also when ctx has ended.
func (s *setup) withdraw(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err == nil {
		defer closeQuietly(conn.Close)
		err = DropSlot(ctx, conn, s.Slot)
	}
	if err != nil {
		return fmt.Errorf("%w; and slot %s could not be dropped again and holds back WAL: run walrelay init again (%w)",
			cause, s.Slot, err)
	}
	return cause
}

// slotError says what a failed creation has waited for.
func (s *setup) slotError(ctx context.Context, err error, waited bool) error {
	const (
		configurationLimit = "53400" // no free slot
		tooManyConnections = "53300" // no free walsender
	)
	var pg *pgconn.PgError
	switch {
	case waited:
		return fmt.Errorf("%w; it waited %s for write transactions to end%s", err, s.o.SlotTimeout, s.writers(ctx))
	case errors.As(err, &pg) && pg.Code == configurationLimit:
		return fmt.Errorf("%w; drop slots that nobody uses, or raise max_replication_slots", err)
	case errors.As(err, &pg) && pg.Code == tooManyConnections:
		return fmt.Errorf("%w; raise max_wal_senders", err)
	}
	return err
}

// writers names the transactions that a slot waits for. It is only for the message.
func (s *setup) writers(ctx context.Context) string {
	var list *string
	err := s.conn.QueryRow(ctx, `
		SELECT string_agg(coalesce('process ' || pid, 'a prepared transaction (pg_prepared_xacts)'), ', ')
		FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted`).Scan(&list)
	if err != nil || list == nil {
		return ""
	}
	return ": " + *list
}
