package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
)

// AdoptOptions says what Adopt is to look at and what a person accepts.
type AdoptOptions struct {
	// Tables, NoSubscribers, Check and Report are as in SetupOptions.
	Tables        []string
	NoSubscribers []string
	Check         func(*Table) error
	Report        func(Step)
	// Ignore are tables whose rows may be in the publication without being relayed.
	Ignore []string
	// MatchByID: what the one before has published without confirming it is recognised by event id and key.
	MatchByID bool
	// IDColumns are the columns with the event ids, by table. Needed for MatchByID.
	IDColumns map[string]string
	// NewKafkaCluster: the slot's events may go to another Kafka cluster from here on.
	NewKafkaCluster bool
}

// Adopt takes over a slot that somebody else has used, such as Debezium, at the position it has. It needs a publication
// that is older than that position: where there is none it makes one, and the one before must go on until the slot has
// passed it. Then that one is stopped, and the slot gets its row in walrelay.checkpoint. Each call does what can be done
// now, and where a person must do something first, the error is a *SetupError that says what.
//
// It also accepts a row that was written on another system, and with NewKafkaCluster one for another Kafka cluster.
func Adopt(ctx context.Context, cfg Config, o AdoptOptions) (*Prepared, error) {
	s := SetupOptions{Tables: o.Tables, Init: true, NoSubscribers: o.NoSubscribers, Check: o.Check, Report: o.Report}
	return withSetup(ctx, cfg, s, func(s *setup, ctx context.Context) error { return s.adopt(ctx, o) })
}

func (s *setup) adopt(ctx context.Context, o AdoptOptions) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.found.adoptable(s.Server, s.Slot, s.Publication, o); err != nil {
		return err
	}
	if err := s.findTables(ctx, false); err != nil {
		return err
	}
	if o.MatchByID {
		if err := s.uniqueIDs(ctx, o.IDColumns); err != nil {
			return err
		}
	}
	if _, err := s.checkMigration(ctx); err != nil { // so that nobody stops the slot's program before that
		return err
	}
	if s.found.publication != nil {
		if err := s.onlyOurs(ctx, o.Ignore); err != nil {
			return err
		}
	}
	if err := s.publish(ctx); err != nil {
		return err
	}
	if err := s.found.publication.Carries(s.Tables); err != nil {
		return err
	}
	if err := s.standsFree(ctx); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	row, err := s.store.Adopt(ctx, s.Slot, checkpoint.Adoption{MatchByID: o.MatchByID, NewKafkaCluster: o.NewKafkaCluster})
	if err != nil {
		return err
	}
	if before := s.found.row; before != nil && before.SystemID != row.SystemID {
		s.changed("row of slot %s in walrelay.checkpoint was written on system %s and is now of system %s", s.Slot, before.SystemID, row.SystemID)
		if before.State != checkpoint.Drained {
			s.o.Report(Step{Text: "the relay was not drained on that system (walrelay drain), so that events may be missing: look with walrelay verify"})
		}
	}
	if before := s.found.row; before != nil && before.KafkaClusterID != row.KafkaClusterID {
		s.changed("row of slot %s in walrelay.checkpoint no longer belongs to Kafka cluster %s", s.Slot, before.KafkaClusterID)
	}
	s.changed("slot %s adopted at %s", s.Slot, row.LSN)
	return nil
}

// adoptable tells whether there is a slot that may be taken over.
func (f found) adoptable(server *Server, slot, publication string, o AdoptOptions) error {
	if f.slot == nil && f.row == nil {
		return &SetupError{
			Code:    fault.SlotMissing,
			Problem: fmt.Sprintf("slot %s does not exist", slot),
			Remedy:  "name the slot of the program to take over from in postgres.slot; to begin anew: walrelay init",
		}
	}
	if f.slot == nil {
		_, err := f.decide(server, slot, publication, true)
		return err
	}
	if err := f.slot.Usable(server.Database); err != nil {
		return err
	}
	switch {
	case f.row == nil:
		return nil
	case f.row.State == checkpoint.Creating, f.row.State == checkpoint.Repairing:
		_, err := f.decide(server, slot, publication, false)
		return err
	case f.publication == nil:
		return &SetupError{
			Code: fault.Adoption,
			Problem: fmt.Sprintf("publication %s does not exist any more; one made now is younger than the slot, "+
				"which cannot read what is older", publication),
			Remedy: "see what is missing and restore it: walrelay repair",
		}
	case f.row.SystemID == server.SystemID && !o.MatchByID && !o.NewKafkaCluster:
		return &SetupError{
			Code:    fault.Adoption,
			Problem: fmt.Sprintf("slot %s is walrelay's already, at %s; there is nothing to adopt", slot, f.row.LSN),
			Remedy: "walrelay run goes on; if another program has published from it since: walrelay slot adopt --match-by-id; " +
				"to publish to another Kafka cluster: walrelay slot adopt --new-kafka-cluster",
		}
	}
	return nil
}

// onlyOurs refuses a publication with tables that the relay would stop at.
func (s *setup) onlyOurs(ctx context.Context, ignored []string) error {
	rows, err := s.conn.Query(ctx, `SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = $1 ORDER BY 1`, s.Publication)
	var names []string
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return fmt.Errorf("list the tables of publication %s: %w", s.Publication, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(ignored, name) || slices.ContainsFunc(s.Tables, func(t *Table) bool { return t.Name() == name })
	})
	if len(names) == 0 {
		return nil
	}
	more := ""
	if len(names) > 3 {
		names, more = names[:3], " and others"
	}
	return &SetupError{
		Code:    fault.Adoption,
		Problem: fmt.Sprintf("publication %s has other tables too: %s%s; a row of one would stop the relay", s.Publication, strings.Join(names, ", "), more),
		Remedy:  "name a new publication in postgres.publication, which walrelay slot adopt then makes; or list the tables under ignore",
	}
}

// uniqueIDs refuses tables whose ids may repeat: an event that nobody has published would count as published.
func (s *setup) uniqueIDs(ctx context.Context, columns map[string]string) error {
	for _, table := range s.Tables {
		column := columns[table.Name()]
		var unique bool
		// A unique index of a partitioned table must have the partition key too; a uuid is unique without it.
		err := s.conn.QueryRow(ctx, `SELECT EXISTS (
			SELECT FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid AND a.attnum = ANY (i.indkey)
			WHERE a.attrelid = $1 AND a.attname = $2 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
			  AND (i.indnkeyatts = 1 AND i.indkey[0] = a.attnum OR $3 AND a.atttypid = 'uuid'::regtype))`,
			table.Relation.ID, column, table.Partitioned).Scan(&unique)
		if err != nil {
			return fmt.Errorf("look whether column %s of table %s is unique: %w", column, table.Name(), err)
		}
		if !unique {
			return &SetupError{
				Code: fault.Adoption,
				Problem: fmt.Sprintf("column %s of table %s has no unique index; matching by it could take an event that was "+
					"never published for one that was", column, table.Name()),
				Remedy: fmt.Sprintf("CREATE UNIQUE INDEX ON %s (%s); or adopt without --match-by-id, which publishes some events twice",
					table.sql(), quote(column)),
			}
		}
	}
	return nil
}

// standsFree tells whether the slot is past the publication, and nobody holds it.
func (s *setup) standsFree(ctx context.Context) error {
	passed, err := Passed(ctx, s.conn, s.Slot, s.found.publication)
	if err != nil {
		return err
	}
	holder, err := Holder(ctx, s.conn, s.Slot)
	switch {
	case err != nil:
		return err
	case passed && holder == "":
		return nil
	case passed:
		return &SetupError{
			Code:    fault.Adoption,
			Problem: fmt.Sprintf("slot %s is past publication %s, and held by %s", s.Slot, s.Publication, holder),
			Remedy:  "stop that program, for good, and run this again",
		}
	}
	remedy := "leave that program running until the slot is past the publication (it must publish something, and confirm it), and run this again"
	if holder == "" {
		holder = "nobody"
		remedy = "start the program again that has used the slot, until it is past the publication; then stop it and run this again"
	}
	return &SetupError{
		Code: fault.Adoption,
		Problem: fmt.Sprintf("slot %s at %s is not past publication %s yet, and could not read what comes next; it is held by %s",
			s.Slot, s.found.slot.ConfirmedFlushLSN, s.Publication, holder),
		Remedy: remedy,
	}
}

// Passed tells whether the publication, as it is now, is older than everything that the slot has still to send. Decoding
// looks the publication up as of each row: where that is older, Postgres up to 17 fails for good, and later ones leave
// the row out.
//
// It compares transaction numbers: those below the slot's catalog_xmin had ended before the slot's position. So it says
// yes a little late, up to a checkpoint or 15 seconds after that.
func Passed(ctx context.Context, conn *pgx.Conn, slot string, p *Publication) (bool, error) {
	xmins := []string{p.row.xmin}
	for _, row := range p.tables {
		xmins = append(xmins, row.xmin)
	}
	for _, row := range p.schemas {
		xmins = append(xmins, row.xmin)
	}
	var passed bool
	err := conn.QueryRow(ctx, `
		SELECT coalesce(bool_and(age(changed::xid) > age(catalog_xmin)), false)
		FROM pg_replication_slots, unnest($2::text[]) changed WHERE slot_name = $1`, slot, xmins).Scan(&passed)
	if err != nil {
		return false, fmt.Errorf("look whether slot %s is past publication %s: %w", slot, p.Name, err)
	}
	return passed, nil
}

// Holder says in words who holds the slot, and nothing where nobody does.
func Holder(ctx context.Context, conn *pgx.Conn, slot string) (string, error) {
	var holder string
	err := conn.QueryRow(ctx, `
		SELECT concat_ws(', ', 'process ' || s.active_pid, 'application ' || nullif(a.application_name, ''), 'user ' || a.usename,
		                 'from ' || host(a.client_addr))
		FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
		WHERE s.slot_name = $1 AND s.active_pid IS NOT NULL`, slot).Scan(&holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look who holds slot %s: %w", slot, err)
	}
	return holder, nil
}
