package outbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is the caller's transaction. A pgx.Tx is one; SQL makes one of a *sql.Tx.
type Tx interface {
	// Exec runs a statement in the transaction.
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	// Commit is never called. It keeps out what has no transaction, such as a pool or a connection: an event written
	// there is published even if the rest fails.
	Commit(ctx context.Context) error
}

// SQLTx is what SQL needs of a transaction of database/sql: a *sql.Tx, a *sqlx.Tx, a bun.Tx, the ExecContext of ent's Tx,
// or, of GORM, tx.Statement.ConnPool where it has Commit.
type SQLTx interface {
	// ExecContext runs a statement in the transaction.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// Commit is never called; see Tx.
	Commit() error
}

// SQL makes a Tx of a transaction of database/sql, whatever the driver.
func SQL(tx SQLTx) Tx { return sqlTx{tx} }

type sqlTx struct{ tx SQLTx }

func (t sqlTx) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	result, err := t.tx.ExecContext(ctx, sql, arguments...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprint("ROWS ", n)), err
}

func (t sqlTx) Commit(context.Context) error { return t.tx.Commit() }

// Beginner begins transactions: a *pgxpool.Pool, a *pgx.Conn, or a pgx.Tx, which makes a savepoint.
type Beginner interface {
	// Begin begins a transaction.
	Begin(ctx context.Context) (pgx.Tx, error)
}
