package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/lsn"
)

// State is what the row says of its slot.
type State string

// The states of a row.
const (
	// Creating: the slot is being made, or its making was interrupted.
	Creating State = "creating"
	// Ready: a relay runs, or the last one did not stop cleanly.
	Ready State = "ready"
	// Clean: the last relay stopped after everything that it had read was acknowledged and confirmed.
	Clean State = "clean"
	// Drained: everything that was committed is in Kafka, and the server may be stopped for good; see Row.Ceiling.
	Drained State = "drained"
	// Repairing: a repair was begun and has not ended. No relay may run.
	Repairing State = "repairing"
)

// NoProducer stands for a producer id that is not known; Kafka's ids begin at 0.
const NoProducer = -1

// Row is the durable position of one slot, a row of walrelay.checkpoint.
type Row struct {
	// Slot is the replication slot's name, the key.
	Slot  string
	State State
	// SystemID is the system identifier of the server whose WAL LSN belongs to, as IDENTIFY_SYSTEM prints it.
	SystemID string
	// Timeline is that server's timeline at the save.
	Timeline int32
	// LSN: every event of a transaction whose commit record starts below it is in Kafka.
	LSN lsn.End
	// CommitTime is when the last such transaction with events was committed. Zero: none yet; a save with zero
	// keeps what the row has.
	CommitTime time.Time
	// Horizon is the same as LSN for the ids of transactions, which rows carry. Zero: not known; a save with zero keeps
	// what the row has.
	Horizon Horizon
	// Publication is a fingerprint of the publication and its tables. Another one means that rows were inserted which
	// are not in the stream. Empty: not known yet; a save with an empty one keeps what the row has.
	Publication string
	// Routing is a hash of what makes records of rows. Empty: not known yet; a save with an empty one keeps what the row has.
	Routing string
	// Epoch counts the starts of relays on this slot, see Claim.
	Epoch int64
	// KafkaClusterID is the cluster that has the events. Empty: not known yet; a save with an empty one keeps what
	// the row has.
	KafkaClusterID string
	// ProducerID is what the Kafka brokers know the last relay by. NoProducer: not known; a save with it keeps what the
	// row has.
	ProducerID int64
	// MatchByID: the slot was taken over from somebody who published without our positions, and the relay is not past
	// what they may have published. Set by Adopt; a save with false ends it for good.
	MatchByID bool
	// Ceiling goes with Drained: the relay goes on to confirm what it has published without a row for it, up to here. Each
	// row is a commit itself, so that with a row for every position the slot could never reach the end of the log. It
	// stays until the first save of the next relay. 0: none.
	Ceiling lsn.End
	// SavedAt is the time of the save by the clock of Postgres. Set by Load and Claim, ignored by Save.
	SavedAt time.Time
}

// Horizon bounds which rows of a table may not be in Kafka, without a position, which rows do not carry.
type Horizon struct {
	// XID: every event of a transaction with a lower id is in Kafka. A long transaction holds it back. 0: not known.
	XID uint64
	// LSN: no transaction below XID has its commit record at or behind it.
	LSN lsn.End
	// Time: no transaction from XID on was committed before it, by the clock of Postgres.
	Time time.Time
}

// Store reads and writes the rows over a connection of its own, which it opens at the first call and again after
// it broke. It never retries: the caller does, and may, since every call can be repeated.
//
// One goroutine uses a Store. Statements and waits for locks are bounded on the server (5 s, 2 s); give ctx a
// deadline as well, against a server that is silent.
type Store struct {
	address func() (*pgx.ConnConfig, error)
	conn    *pgx.Conn
}

// NewStore makes a Store that asks for the address, which may have a new password, before each connection. It does no I/O.
func NewStore(address func() (*pgx.ConnConfig, error)) *Store { return &Store{address: address} }

// Always is an address whose password does not change.
func Always(config *pgx.ConnConfig) func() (*pgx.ConnConfig, error) {
	return func() (*pgx.ConnConfig, error) { return config.Copy(), nil }
}

// session sets what the connection of a Store needs.
func session(config *pgx.ConnConfig) {
	for name, value := range map[string]string{
		// Not the role's setting. A synchronous standby can be this very relay, and then the save would wait for
		// a confirmation that waits for the save; with off, a crash loses the row but not the slot's position.
		"synchronous_commit": "local",
		"lock_timeout":       "2s",
		"statement_timeout":  "5s",
	} {
		config.RuntimeParams[name] = value
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "walrelay"
	}
}

// FlushLSN is the end of what the server has written durably. Nobody can have read beyond it.
func (s *Store) FlushLSN(ctx context.Context) (lsn.End, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for the end of the log: %w", err)
	}
	var text string
	if err := conn.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&text); err != nil {
		return 0, fmt.Errorf("ask for the end of the log: %w", err)
	}
	return lsn.ParseEnd(text)
}

// Conn is the connection of the Store, for other short questions to the same server. It belongs to the goroutine that
// uses the Store.
func (s *Store) Conn(ctx context.Context) (*pgx.Conn, error) { return s.connect(ctx) }

// Close ends the connection, if there is one. The Store may be used again.
func (s *Store) Close(ctx context.Context) error {
	if s.conn == nil {
		return nil
	}
	conn := s.conn
	s.conn = nil
	if err := conn.Close(ctx); err != nil {
		return fmt.Errorf("close checkpoint store: %w", err)
	}
	return nil
}

func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	if s.conn != nil && !s.conn.IsClosed() {
		return s.conn, nil
	}
	config, err := s.address()
	if err != nil {
		return nil, err
	}
	session(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.conn = conn
	return conn, nil
}

// Load reads the row of a slot. It reports false where there is none, also when the table is absent.
func (s *Store) Load(ctx context.Context, slot string) (Row, bool, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return Row{}, false, fmt.Errorf("load checkpoint of slot %q: %w", slot, err)
	}
	row, err := scan(conn.QueryRow(ctx, `SELECT `+columns+` FROM walrelay.checkpoint c WHERE slot = $1`, slot))
	const undefinedTable = "42P01"
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &pg) && pg.Code == undefinedTable:
		return Row{}, false, nil
	case err != nil:
		return Row{}, false, fmt.Errorf("load checkpoint of slot %q: %w", slot, err)
	}
	return row, true, nil
}

// Create writes the row of a slot that is about to be made, with the server's system identifier and timeline and
// no position. It takes over a row left in the state creating and refuses any other.
func (s *Store) Create(ctx context.Context, slot string) error {
	return s.write(ctx, "create", Row{Slot: slot}, createChecks, createSQL, slot)
}

// MarkReady ends the creation: the slot exists and starts at row.LSN, its consistent point, with the horizon of its
// snapshot. Publication, KafkaClusterID and ProducerID are taken over too.
func (s *Store) MarkReady(ctx context.Context, row Row) error {
	return s.write(ctx, "mark ready", row, readyChecks, readySQL, row.Slot, row.LSN.String(),
		nullXID(row.Horizon.XID), nullEnd(row.Horizon.LSN), nullTime(row.Horizon.Time), nullText(row.Publication),
		nullText(row.KafkaClusterID), nullID(row.ProducerID))
}

// Claim makes the caller the one relay that may save. It is to be called after START_REPLICATION has succeeded,
// for only then nobody else can hold the slot. systemID and timeline are the stream's. Like Save it can be refused.
//
// It returns the new epoch and the row as it was before. The row itself says ready from now on, whatever it said
// before, so that a crash before the first save counts as an unclean stop.
func (s *Store) Claim(ctx context.Context, slot, systemID string, timeline int32) (epoch int64, before Row, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return 0, Row{}, fmt.Errorf("claim checkpoint of slot %q: %w", slot, err)
	}
	before, err = scan(conn.QueryRow(ctx, claimSQL, slot, systemID, timeline))
	if errors.Is(err, pgx.ErrNoRows) {
		err = explain(ctx, conn, Row{Slot: slot, SystemID: systemID, Timeline: timeline}, claimChecks)
	}
	if err != nil {
		return 0, Row{}, fmt.Errorf("claim checkpoint of slot %q: %w", slot, err)
	}
	return before.Epoch + 1, before, nil
}

// Save writes the row, in the state Ready, Clean or Drained, if and only if it is mine to write: the server at the other
// end is the stream's (row.SystemID and row.Timeline), the row belongs to the same history, nobody has claimed it
// since (row.Epoch), its position does not go down, and its Kafka cluster stays the same. All that is one
// statement. Otherwise the error is a *RefusedError.
func (s *Store) Save(ctx context.Context, row Row) error {
	return s.write(ctx, "save", row, saveChecks, saveSQL, row.Slot, row.State, row.SystemID, row.Timeline,
		row.LSN.String(), row.Epoch, nullTime(row.CommitTime), nullText(row.KafkaClusterID), nullID(row.ProducerID),
		nullXID(row.Horizon.XID), nullEnd(row.Horizon.LSN), nullTime(row.Horizon.Time), nullText(row.Publication), row.MatchByID,
		nullEnd(row.Ceiling), nullText(row.Routing))
}

// write executes a guarded statement that changes exactly one row unless a guard refuses.
func (s *Store) write(ctx context.Context, verb string, row Row, checks []check, sql string, args ...any) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("%s checkpoint of slot %q: %w", verb, row.Slot, err)
	}
	tag, err := conn.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = explain(ctx, conn, row, checks)
	}
	if err != nil {
		return fmt.Errorf("%s checkpoint of slot %q: %w", verb, row.Slot, err)
	}
	return nil
}
