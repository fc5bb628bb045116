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
	"github.com/walrelay/walrelay/migrations"
)

// SetupOptions says what Setup is to prepare and what it may do for it.
type SetupOptions struct {
	// Tables are the outbox tables, schema.table. Empty: DefaultTable, or none where Config.Messages is set.
	Tables []string
	// Init: a person asks for it (walrelay init). Setup may then also create outbox tables, migrate the schema, use
	// a publication that was made before, and clear away what an interrupted setup has left.
	Init bool
	// Existing tells what becomes of rows that the tables have before the slot starts.
	Existing Existing
	// Fill publishes the rows with PublishExisting. When it fails, the slot is dropped again and the next init begins
	// anew, with another snapshot: Fill must find out itself what was published already.
	Fill Fill
	// Failover makes a slot that goes along to standbys (17 and later). It is so anyway where the server has
	// synchronized_standby_slots.
	Failover bool
	// SlotTimeout bounds the making of the slot, which waits for all write transactions that run. Default 1 minute.
	SlotTimeout time.Duration
	// NoSubscribers are publications of all tables (or of a whole schema) that no subscriber of Postgres reads, such as
	// Debezium's: new tables may be in them.
	NoSubscribers []string
	// Check tells whether the mapping fits the table. May be nil.
	Check func(*Table) error
	// Report is told of each step, before what may take long and after what was done or found. May be nil.
	Report func(Step)
}

// Existing is a policy for rows that are older than the slot.
type Existing string

// The policies.
const (
	// RefuseExisting: an outbox that is not empty is refused with ErrExistingRows.
	RefuseExisting Existing = ""
	// SkipExisting: they are never published.
	SkipExisting Existing = "skip"
	// PublishExisting: they are published first, by SetupOptions.Fill.
	PublishExisting Existing = "publish"
)

// Step is something that Setup has done or found.
type Step struct {
	// Text says it in one line.
	Text string
	// Changed: something was created or removed. Otherwise it was there already.
	Changed bool
}

// Prepared is a database that is ready to be streamed from.
type Prepared struct {
	Server *Server
	// Slot and Publication are the names in use, with the defaults filled in.
	Slot, Publication string
	// Tables are in the order of SetupOptions.
	Tables []*Table
	// Fingerprint is Publication.Fingerprint of Tables.
	Fingerprint string
	// Created: the slot was made by this call; this is the first start.
	Created bool
}

// ErrExistingRows is the cause of the SetupError for an outbox that was not empty at the first start.
var ErrExistingRows = errors.New("the outbox has rows already")

// Names are the slot's and the publication's name, with the defaults filled in.
func (c *Config) Names(database string) (slot, publication string) {
	slot = c.Slot
	if slot == "" {
		slot = DefaultSlot(database)
	}
	publication = c.Publication
	if publication == "" {
		publication = slot
	}
	return slot, publication
}

// Setup makes sure that everything is there that a relay needs: walrelay's own table and the slot's row in it, the
// publication, the slot. Where none of it is there, this is the first start and Setup makes it. Where all of it is
// there, Setup only looks at it. Where a part is missing, events may have been lost: nothing is made anew, and the
// error is a *SetupError that says what to do. On a standby the error is ErrStandby.
//
// Several may call it at once on one database; they wait for each other. It ends with ctx.
func Setup(ctx context.Context, cfg Config, o SetupOptions) (*Prepared, error) {
	return withSetup(ctx, cfg, o, (*setup).run)
}

// withSetup connects and does the work.
func withSetup(ctx context.Context, cfg Config, o SetupOptions, work func(*setup, context.Context) error) (*Prepared, error) {
	config, err := cfg.SQL()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, connectError(err, &config.Config)
	}
	defer closeQuietly(conn.Close)
	store := checkpoint.NewStore(cfg.SQL)
	defer closeQuietly(store.Close)

	if len(o.Tables) == 0 && !cfg.Messages {
		o.Tables = []string{DefaultTable}
	}
	if o.SlotTimeout == 0 {
		o.SlotTimeout = time.Minute
	}
	if o.Report == nil {
		o.Report = func(Step) {}
	}
	s := &setup{o: o, cfg: cfg, config: config, conn: conn, store: store}
	if err := work(s, ctx); err != nil {
		return nil, s.unprivileged(err)
	}
	return &s.Prepared, nil
}

// closeQuietly closes a connection that has served its purpose; the server notices either way.
func closeQuietly(closeConn func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = closeConn(ctx)
}

// setup is one call of Setup.
type setup struct {
	Prepared
	o      SetupOptions
	cfg    Config
	config *pgx.ConnConfig
	conn   *pgx.Conn // ordinary; holds the lock
	store  *checkpoint.Store
	found  found
}

func (s *setup) run(ctx context.Context) (err error) {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if !s.found.complete() { // or not yet: another relay may be at it
		if err := s.lock(ctx); err != nil {
			return err
		}
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	plan, err := s.found.decide(s.Server, s.Slot, s.Publication, s.o.Init)
	if err != nil {
		return err
	}
	if plan == keep {
		return s.verify(ctx)
	}
	return s.bootstrap(ctx, plan)
}

// begin looks at the server, and at what is there.
func (s *setup) begin(ctx context.Context) (err error) {
	if s.Server, err = InspectServer(ctx, s.conn); err != nil {
		return err
	}
	if err := s.Server.Usable(); err != nil {
		return err
	}
	s.Slot, s.Publication = s.cfg.Names(s.Server.Database)
	if err := CheckSlotName(s.Slot); err != nil {
		return err
	}
	return s.look(ctx)
}

// setupLock is the advisory lock of Setup; the letters "walinit" as a number.
const setupLock int64 = 0x77616c696e6974

// lock waits until no other Setup is at work in this database. The lock ends with the connection.
func (s *setup) lock(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, setupLock); err != nil {
		return fmt.Errorf("wait for another walrelay that sets up this database: %w", err)
	}
	return nil
}

// look finds what is there.
func (s *setup) look(ctx context.Context) (err error) {
	s.found = found{}
	row, exists, err := s.store.Load(ctx, s.Slot)
	if err != nil {
		return err
	}
	if exists {
		s.found.row = &row
	}
	if s.found.publication, err = FindPublication(ctx, s.conn, s.Server.Version, s.Publication); err != nil {
		return err
	}
	s.found.slot, err = InspectSlot(ctx, s.conn, s.Slot)
	return err
}

// verify looks whether what is there can be used.
func (s *setup) verify(ctx context.Context) error {
	if err := s.findTables(ctx, false); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	s.there("row of slot %s in walrelay.checkpoint, state %s, at %s", s.Slot, s.found.row.State, s.found.row.LSN)
	if err := s.found.publication.Carries(s.Tables); err != nil {
		return err
	}
	s.there("publication %s", s.Publication)
	s.there("slot %s at %s", s.Slot, s.found.slot.ConfirmedFlushLSN)
	s.Fingerprint = s.found.publication.Fingerprint(s.Tables)
	return nil
}

// migrate brings walrelay's own tables up to date. Only init and a first start may.
func (s *setup) migrate(ctx context.Context) error {
	pending, err := s.checkMigration(ctx)
	if err != nil {
		return err
	}
	if !pending {
		s.there("schema %s", migrations.Schema)
		return nil
	}
	if err := migrations.Apply(ctx, s.config); err != nil {
		return err
	}
	s.changed("schema %s created or brought up to date", migrations.Schema)
	return nil
}

// checkMigration tells whether walrelay's own tables are out of date. The error is why they may not be brought up to date.
func (s *setup) checkMigration(ctx context.Context) (pending bool, err error) {
	pending, err = migrations.Pending(ctx, s.conn)
	if err != nil || !pending {
		return false, err
	}
	if s.found.row != nil && !s.o.Init {
		return true, &SetupError{
			Code:    fault.Schema,
			Problem: "the tables of schema walrelay are older than this walrelay",
			Remedy:  "run walrelay init",
		}
	}
	return true, s.refuseCarried(ctx, migrations.Schema, "walrelay.checkpoint", migrations.SQL)
}

func (s *setup) there(format string, args ...any) {
	s.o.Report(Step{Text: fmt.Sprintf(format, args...) + ": there"})
}

func (s *setup) changed(format string, args ...any) {
	s.o.Report(Step{Text: fmt.Sprintf(format, args...), Changed: true})
}

// unprivileged adds the remedy to a statement that the role may not execute.
func (s *setup) unprivileged(err error) error {
	var known *SetupError
	var refused *ConnectError
	var pg *pgconn.PgError
	if errors.As(err, &known) || errors.As(err, &refused) || !errors.As(err, &pg) || pg.Code != codeInsufficientPriv {
		return err
	}
	return &SetupError{
		Code:    fault.RoleRights,
		Problem: fmt.Sprintf("role %s may not", s.config.User),
		Err:     err,
		Remedy: "run walrelay init as the owner of the outbox table with CREATE on the database, " +
			"or hand the output of walrelay init --sql to a DBA; it also lists the grants for a role that only relays",
	}
}
