package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
)

// System is what IDENTIFY_SYSTEM says of the server.
type System struct {
	// ID is the system identifier; equal for a server and all its physical copies.
	ID string
	// Timeline rises at each promotion.
	Timeline int32
	// Database is the connected database's name.
	Database string
}

// Conn is a replication connection before it streams.
type Conn struct {
	cfg Config
	pg  *pgconn.PgConn
	// System is the server at the other end.
	System System
}

// Connect opens a replication connection and asks which server it has reached.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	config, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, connectError(err, config)
	}
	c := &Conn{cfg: cfg, pg: pg}
	system, err := pglogrepl.IdentifySystem(ctx, pg)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("identify system: %w", err)
	}
	c.System = System{ID: system.SystemID, Timeline: system.Timeline, Database: system.DBName}
	return c, nil
}

// Close ends a connection that does not stream.
func (c *Conn) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.pg.Close(ctx) // the server notices either way
}

// connectError adds the remedy where a person must act. pgconn's text carries no password.
func connectError(err error, config *pgconn.Config) error {
	if Classify(err) != Stop {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	remedy := "check user and password, and that pg_hba.conf has a line for this database and user " +
		"(a line for the keyword replication does not count for logical replication)"
	var pg *pgconn.PgError
	if asPg(err, &pg) && pg.Code == codeInsufficientPriv {
		remedy = fmt.Sprintf("ALTER ROLE %q REPLICATION; (RDS: GRANT rds_replication TO %q)", config.User, config.User)
	}
	return &SetupError{Problem: "connect to Postgres", Remedy: remedy, Err: err}
}
