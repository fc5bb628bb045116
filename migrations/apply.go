package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Schema is the schema that holds walrelay's own tables.
const Schema = "walrelay"

const versionTable = Schema + ".schema_version"

// lockID is the advisory lock of everybody who changes the schema; the letters "walrelay" as a number.
const lockID int64 = 0x77616c72656c6179

// Apply creates the schema walrelay where it is absent and brings its tables up to date. It needs CREATE on the
// database, or, where the schema exists, its ownership. With nothing to do it changes nothing.
func Apply(ctx context.Context, config *pgx.ConnConfig) (err error) {
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := createSchema(ctx, db); err != nil {
		return fmt.Errorf("create schema %s: %w", Schema, err)
	}
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate schema %s: %w", Schema, err)
	}
	return nil
}

// createSchema takes the lock first: CREATE SCHEMA IF NOT EXISTS fails when two run it at once, and it demands
// CREATE on the database even if there is nothing to create.
func createSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockID); err != nil {
		return err
	}
	var absent bool
	if err := tx.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NULL`, Schema).Scan(&absent); err != nil {
		return err
	}
	if absent {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+Schema); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID), lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, numbered(),
		goose.WithTableName(versionTable), goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return provider, nil
}

// Pending tells whether Apply has something to do. It only reads, so that a role that may not create anything can
// ask. Migrations of a newer walrelay in the database do not count.
func Pending(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, versionTable).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for %s: %w", versionTable, err)
	}
	if !exists {
		return true, nil
	}
	var applied int64
	err := conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&applied)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", versionTable, err)
	}
	versions, err := versions()
	if err != nil {
		return false, err
	}
	return applied < versions[len(versions)-1], nil
}

// versions are the numbers of the embedded migrations, in order.
func versions() ([]int64, error) {
	names, err := fs.Glob(numbered(), "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	numbers := make([]int64, len(names))
	for i, name := range names {
		if numbers[i], err = goose.NumericComponent(name); err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
	}
	return numbers, nil
}
