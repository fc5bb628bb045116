package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Unit collects the events of a unit of work, to be written together just before its transaction commits. One goroutine
// uses it, and only while the function that was handed it runs.
type Unit struct{ events []Event }

// Add takes events in. An event that cannot be written ends the unit of work at its end, without a commit.
func (u *Unit) Add(events ...Event) { u.events = append(u.events, events...) }

// InTx is a unit of work on the zero Outbox. See Outbox.InTx.
func InTx(ctx context.Context, db Beginner, do func(tx pgx.Tx, unit *Unit) error) error {
	return Outbox{}.InTx(ctx, db, do)
}

// InTx begins a transaction, calls do, writes the events that do has added to unit, in the order added, and commits. After
// any error, or a panic of do, it rolls back.
func (o Outbox) InTx(ctx context.Context, db Beginner, do func(tx pgx.Tx, unit *Unit) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var unit Unit
		if err := do(tx, &unit); err != nil {
			return err
		}
		return o.Insert(ctx, tx, unit.events...)
	})
}

// InSQLTx is InTx with database/sql. Opts may be nil.
func (o Outbox) InSQLTx(ctx context.Context, db *sql.DB, opts *sql.TxOptions, do func(tx *sql.Tx, unit *Unit) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("outbox: begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	var unit Unit
	if err := do(tx, &unit); err != nil {
		return err
	}
	if err := o.Insert(ctx, SQL(tx), unit.events...); err != nil {
		return err
	}
	return tx.Commit()
}
