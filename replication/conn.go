package replication

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/socket"
)

// System is what IDENTIFY_SYSTEM says of the server.
type System struct {
	// ID is the system identifier; equal for a server and all its physical copies.
	ID string
	// Timeline rises at each promotion.
	Timeline int32
	// Database is the connected database's name.
	Database string
	// Started is when the server was started, by its own clock. A server that is restored from a copy is the same system on
	// the same timeline; that it was started anew is the only thing that gives it away.
	Started string
}

// Conn is a replication connection before it streams.
type Conn struct {
	cfg Config
	pg  *pgconn.PgConn
	// System is the server at the other end.
	System System
}

// ErrStandby: the server is in recovery. Decoding on a standby is not supported; after a promotion it is right.
var ErrStandby = errors.New("the server is a standby; waiting for a primary")

// Connect opens a replication connection and asks which server it has reached.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	config, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return socket.Quiet(conn), nil
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
	standby, started, err := c.state(ctx)
	if err == nil && standby {
		err = ErrStandby
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.System = System{ID: system.SystemID, Timeline: system.Timeline, Database: system.DBName, Started: started}
	return c, nil
}

// Close ends a connection that does not stream.
func (c *Conn) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.pg.Close(ctx) // the server notices either way
}

// state asks whether the server is a standby, and since when it runs. During a failover the address may lead to one that is
// not promoted yet; the slot is then missing or unusable, which must not be taken for a lost slot.
func (c *Conn) state(ctx context.Context) (standby bool, started string, err error) {
	results, err := c.pg.Exec(ctx, "SELECT pg_is_in_recovery(), pg_postmaster_start_time()").ReadAll()
	if err != nil {
		return false, "", fmt.Errorf("ask for recovery and start: %w", err)
	}
	row := results[0].Rows[0]
	return string(row[0]) == "t", string(row[1]), nil
}

// ConnectError is a connection that was refused. pgconn's text carries no password.
type ConnectError struct {
	// Code is its kind.
	Code fault.Code
	// Remedy is what may mend it.
	Remedy string
	Err    error
}

// Error is the cause and the remedy in one line.
func (e *ConnectError) Error() string {
	text := "connect to Postgres: " + e.Attempts()
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Attempts is pgconn's report in one line. It has a line for each attempt, and the same one again for TLS and without.
func (e *ConnectError) Attempts() string {
	head, rest, _ := strings.Cut(e.Err.Error(), "\n")
	var lines []string
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(head + " " + strings.Join(lines, ", "))
}

// FaultCode is the kind of the error.
func (e *ConnectError) FaultCode() fault.Code { return e.Code }

// Unwrap is the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

func connectError(err error, config *pgconn.Config) error {
	var pg *pgconn.PgError
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &ConnectError{Code: fault.PostgresTLS, Err: err, Remedy: "sslrootcert must name the authority that has signed the server's certificate, and " +
			"with verify-full the host must be a name in it"}
	}
	if !errors.As(err, &pg) && strings.Contains(err.Error(), "server refused TLS connection") { // else it was tried without as well
		return &ConnectError{Code: fault.PostgresTLS, Err: err, Remedy: "the server has ssl = off; turn it on there, or say sslmode=disable"}
	}
	if strings.Contains(err.Error(), "remote error: tls") {
		return &ConnectError{Code: fault.PostgresTLS, Err: err, Remedy: "the server does not accept our side of TLS; it must trust (ssl_ca_file) who has signed sslcert"}
	}
	if Classify(err) != Stop || !errors.As(err, &pg) {
		return &ConnectError{Code: fault.PostgresUnreachable, Err: err, Remedy: "check that Postgres runs there, and host and port of postgres.url"}
	}
	if pg.Code == codeInsufficientPriv {
		return &ConnectError{Code: fault.RoleReplication, Err: err, Remedy: fmt.Sprintf(
			"ALTER ROLE %s REPLICATION; (RDS: GRANT rds_replication TO %s;)", quote(config.User), quote(config.User))}
	}
	return &ConnectError{Code: fault.PostgresRefused, Err: err, Remedy: "check user, password and database, and that pg_hba.conf has a line for " +
		"this database and user (a line for the keyword replication does not count for logical replication)"}
}
