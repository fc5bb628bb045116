package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/migrations"
)

// bootstrap is the first start. The order matters: the publication before the slot, since a slot cannot read what is
// older than the publication; the row before the slot, so that an interruption shows; and the look at the table in the
// slot's own snapshot, since what is not in it comes by the slot.
func (s *setup) bootstrap(ctx context.Context, p plan) error {
	replica, err := Connect(ctx, s.cfg) // before anything is changed: this needs the privilege most often missing
	if err != nil {
		return err
	}
	defer replica.Close()
	if p == redo {
		if err := DropSlot(ctx, s.conn, s.Slot); err != nil {
			return err
		}
		s.changed("slot %s dropped, which an interrupted setup has left", s.Slot)
	}
	if err := s.findTables(ctx, true); err != nil {
		return err
	}
	if s.found.publication != nil {
		if err := s.found.publication.Carries(s.Tables); err != nil {
			return err
		}
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.store.Create(ctx, s.Slot); err != nil {
		return err
	}
	s.changed("row of slot %s in walrelay.checkpoint created", s.Slot)
	if err := s.publish(ctx); err != nil {
		return err
	}
	return s.makeSlot(ctx, replica)
}

// findTables looks up every table and checks it against its mapping. What is wrong with all of them is in one report.
func (s *setup) findTables(ctx context.Context, first bool) error {
	s.Tables = make([]*Table, len(s.o.Tables))
	var problems []*SetupError
	for i, name := range s.o.Tables {
		table, err := FindTable(ctx, s.conn, name)
		if err == nil && table == nil {
			table, err = s.createTable(ctx, name, first)
		} else if err == nil {
			s.there("table %s", name)
			err = s.check(table)
		}
		var problem *SetupError
		if errors.As(err, &problem) {
			problems = append(problems, problem)
		} else if err != nil {
			return err
		}
		s.Tables[i] = table
	}
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return problems[0]
	}
	texts := make([]string, len(problems))
	for i, problem := range problems {
		texts[i] = problem.Error()
	}
	return &SetupError{Code: fault.TableMissing, Problem: fmt.Sprintf("%d outbox tables cannot be used: %s", len(problems), strings.Join(texts, "; "))}
}

func (s *setup) check(t *Table) error {
	if s.o.Check == nil {
		return nil
	}
	return s.o.Check(t)
}

// createTable makes an outbox table where that is asked for and no other table can be meant. A table that does not fit
// its mapping is not left behind.
func (s *setup) createTable(ctx context.Context, name string, first bool) (table *Table, err error) {
	similar, err := LooksLikeOutbox(ctx, s.conn, name)
	if err != nil {
		return nil, err
	}
	if !first || !s.o.Init || len(similar) > 0 {
		return nil, absentError(name, similar, first)
	}
	schema, relation, err := splitName(name)
	if err != nil {
		return nil, err
	}
	text := migrations.OutboxSQL(schema, relation)
	if err := s.refuseCarried(ctx, schema, name, func() (string, error) { return text, nil }); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, text); err != nil {
			return createTableError(name, schema, err)
		}
		if table, err = FindTable(ctx, s.conn, name); err != nil {
			return err
		}
		return s.check(table)
	})
	if err != nil {
		return nil, err
	}
	s.changed("table %s created", name)
	return table, nil
}

func createTableError(name, schema string, err error) error {
	const undefinedSchema = "3F000"
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == undefinedSchema {
		return &SetupError{
			Code:    fault.TableMissing,
			Problem: fmt.Sprintf("outbox table %s does not exist, nor does its schema", name),
			Remedy:  "CREATE SCHEMA " + quote(schema) + "; then walrelay init",
		}
	}
	return fmt.Errorf("create outbox table %s: %w", name, err)
}

// refuseCarried refuses to create a table that publications of other people would send to subscribers that do not
// have it: each of them would stop at its first row.
func (s *setup) refuseCarried(ctx context.Context, schema, table string, script func() (string, error)) error {
	names, err := carriers(ctx, s.conn, s.Server.Version, schema)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(s.o.NoSubscribers, name) })
	if err != nil || len(names) == 0 {
		return err
	}
	readers, err := possibleSubscribers(ctx, s.conn, s.Server.Version, s.Slot)
	if err != nil || readers == "" {
		return err
	}
	text, err := script()
	if err != nil {
		return err
	}
	return &SetupError{
		Code: fault.Subscribers,
		Problem: fmt.Sprintf("publication %s would send the new table %s to its subscribers, "+
			"which do not have it and would stop; there may be some: %s", strings.Join(names, ", "), table, readers),
		Remedy: "if no Postgres subscription reads it (Debezium is none), add --no-subscribers " + strings.Join(names, " --no-subscribers ") +
			" to walrelay init or walrelay slot adopt; otherwise on each subscriber run: " + creations(text) +
			" and then here the output of walrelay init --sql",
	}
}

// again makes of a statement one that does nothing where its work is done: after an upgrade, a subscriber has a part.
var again = strings.NewReplacer("CREATE SCHEMA ", "CREATE SCHEMA IF NOT EXISTS ", "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ",
	"ADD COLUMN ", "ADD COLUMN IF NOT EXISTS ")

// creations are the statements of a script that make what a subscriber needs, in one line: schemas and tables.
func creations(script string) string {
	var statements []string
	for statement := range strings.SplitSeq(script, ";\n") {
		line := strings.Join(strings.Fields(statement), " ")
		for _, kind := range []string{"CREATE SCHEMA ", "CREATE TABLE ", "ALTER TABLE "} {
			if strings.HasPrefix(line, kind) {
				statements = append(statements, again.Replace(line)+";")
			}
		}
	}
	return strings.Join(statements, " ")
}

// publish creates the publication unless it is there.
func (s *setup) publish(ctx context.Context) (err error) {
	if s.found.publication != nil {
		s.there("publication %s", s.Publication)
	} else {
		if err := CreatePublication(ctx, s.conn, s.Publication, s.Tables); err != nil {
			return err
		}
		s.changed("publication %s created", s.Publication)
		s.found.publication, err = FindPublication(ctx, s.conn, s.Server.Version, s.Publication)
		if err == nil && s.found.publication == nil {
			err = fmt.Errorf("publication %s was dropped at once by somebody", s.Publication)
		}
		if err != nil {
			return err
		}
	}
	s.Fingerprint = s.found.publication.Fingerprint(s.Tables)
	return nil
}

// makeSlot creates the slot and ends the setup. A slot that the relay cannot use is not left behind: it would hold back
// WAL for ever.
func (s *setup) makeSlot(ctx context.Context, replica *Conn) error {
	h, err := s.createSlot(ctx, replica, s.o.Failover || s.Server.SynchronizedStandbySlots != "")
	if err != nil {
		return err
	}
	h.Row.Slot, h.Row.ProducerID, h.Row.Publication = s.Slot, checkpoint.NoProducer, s.Fingerprint
	switch s.o.Existing {
	case SkipExisting:
		s.o.Report(Step{Text: "rows that the outbox has already are not published (--existing=skip)"})
	case PublishExisting:
		err = s.o.Fill(ctx, s.Prepared, &h)
	default:
		err = s.lookForRows(ctx, h.Snapshot)
	}
	if err != nil {
		return s.withdraw(ctx, err)
	}
	if err := s.store.MarkReady(ctx, h.Row); err != nil {
		return err
	}
	s.changed("slot %s created, starts at %s", s.Slot, h.Row.LSN)
	s.Created = true
	return nil
}

// lookForRows looks into the snapshot of the slot for rows that it will not send.
func (s *setup) lookForRows(ctx context.Context, snapshot string) error {
	return s.inSnapshot(ctx, snapshot, func(tx pgx.Tx) error {
		for _, table := range s.Tables {
			var exists bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+table.sql()+`)`).Scan(&exists); err != nil {
				return s.lookError(table, err)
			}
			if exists {
				return &SetupError{
					Code:    fault.TableNotEmpty,
					Problem: fmt.Sprintf("table %s is not empty", table.Name()),
					Err:     ErrExistingRows,
					Remedy: "to publish its rows first: walrelay init --existing=publish; to leave them out and publish " +
						"only new ones: walrelay init --existing=skip",
				}
			}
		}
		return nil
	})
}

func (s *setup) lookError(table *Table, err error) error {
	err = fmt.Errorf("look whether table %s is empty: %w", table.Name(), err)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != codeInsufficientPriv {
		return err
	}
	return &SetupError{
		Code:    fault.RoleReading,
		Problem: fmt.Sprintf("role %s may not read the outbox table", s.config.User),
		Err:     err,
		Remedy: fmt.Sprintf("for this first look: GRANT SELECT ON %s TO %s; or walrelay init --existing=skip",
			table.sql(), quote(s.config.User)),
	}
}
