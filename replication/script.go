package replication

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/migrations"
)

// Script is what walrelay init does, as SQL for a person who may do it.
type Script struct {
	// Slot and Publication are the names, see Config.Names.
	Slot, Publication string
	// Tables are the outbox tables, schema.table. Empty: DefaultTable, or none where Messages is set.
	Tables []string
	// Messages is as in Config.
	Messages bool
	// Create lists those of Tables that the script is to create.
	Create []string
	// Existing and Failover are as in SetupOptions.
	Existing Existing
	Failover bool
	// Role gets the grants for relaying. Empty: the grants are there as comments.
	Role string
}

// SQL is the script, for psql -v ON_ERROR_STOP=1. It must not run inside a transaction: Postgres makes no slot in one
// that has written.
func (s Script) SQL() (string, error) {
	if err := CheckSlotName(s.Slot); err != nil {
		return "", err
	}
	if len(s.Tables) == 0 && !s.Messages {
		s.Tables = []string{DefaultTable}
	}
	quoted, creations, err := s.tables()
	if err != nil {
		return "", err
	}
	schema, err := migrations.SQL()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("-- walrelay: everything that walrelay init would make. Run it in the database of the outbox, with\n" +
		"-- psql -v ON_ERROR_STOP=1, as the owner of the outbox table with CREATE on the database and REPLICATION.\n\n" +
		"BEGIN;\n\n")
	fmt.Fprintf(&b, "%s\n%s", schema, creations)
	fmt.Fprintf(&b, "%s;\n\n", createPublicationSQL(s.Publication, quoted))
	fmt.Fprintf(&b, "%s;\n\nCOMMIT;\n\n", strings.TrimSpace(checkpoint.CreateSQL(s.Slot)))
	fmt.Fprintf(&b, "-- This waits for all write transactions that run.\nSELECT pg_create_logical_replication_slot(%s);\n\n", s.slotArguments())
	if s.Existing == RefuseExisting && len(s.Tables) > 0 {
		b.WriteString(s.refuseExisting(quoted))
	}
	fmt.Fprintf(&b, "%s;\n\n%s", strings.TrimSpace(checkpoint.MarkReadySQL(s.Slot)), s.grants())
	return b.String(), nil
}

// tables gives the quoted names of the tables, and the statements for those to be created.
func (s Script) tables() (quoted []string, creations string, err error) {
	for _, name := range s.Tables {
		schema, table, err := splitName(name)
		if err != nil {
			return nil, "", err
		}
		quoted = append(quoted, pgx.Identifier{schema, table}.Sanitize())
		if slices.Contains(s.Create, name) {
			creations += migrations.OutboxSQL(schema, table) + "\n"
		}
	}
	return quoted, creations, nil
}

func (s Script) slotArguments() string {
	if s.Failover {
		return fmt.Sprintf("'%s', 'pgoutput', false, false, true", s.Slot) // temporary, two-phase, failover
	}
	return fmt.Sprintf("'%s', 'pgoutput'", s.Slot)
}

// refuseExisting stops the script where a table is not empty. A script cannot look into the slot's snapshot, so it
// looks after the slot was made: empty then means that there was nothing before.
func (s Script) refuseExisting(tables []string) string {
	var b strings.Builder
	b.WriteString("DO $walrelay$ BEGIN\n")
	for _, table := range tables {
		fmt.Fprintf(&b, `    IF EXISTS (SELECT FROM %s) THEN
        RAISE EXCEPTION 'the outbox has rows already, which the slot may not send'
            USING HINT = 'To leave them out: SELECT pg_drop_replication_slot(''%s''); then walrelay init --existing=skip';
    END IF;
`, table, s.Slot)
	}
	b.WriteString("END $walrelay$;\n\n")
	return b.String()
}

// grants are for a role that relays and can do nothing else. It needs no privilege on the outbox.
func (s Script) grants() string {
	comment, role := "", s.Role
	if role == "" {
		comment, role = "-- ", "walrelay_relay"
	}
	name := quote(role)
	return fmt.Sprintf("-- The role that relays. It reads the outbox from the WAL and needs no privilege on the table.\n"+
		"-- CREATE ROLE %[2]s LOGIN REPLICATION PASSWORD '...';  (RDS: GRANT rds_replication TO %[2]s;)\n"+
		"%[1]sGRANT USAGE ON SCHEMA walrelay TO %[2]s;\n"+
		"%[1]sGRANT SELECT ON walrelay.schema_version TO %[2]s;\n"+
		"%[1]sGRANT SELECT, UPDATE ON walrelay.checkpoint TO %[2]s;\n"+
		"%[1]sGRANT SELECT, INSERT, UPDATE ON walrelay.request TO %[2]s;\n"+
		"-- To name transactions that keep the log: GRANT pg_read_all_stats TO %[2]s;\n\n"+
		"-- Applications that call walrelay.emit, publish or consumed, or use the Go packages; publish also needs INSERT on the outbox.\n"+
		"-- GRANT USAGE ON SCHEMA walrelay TO ...;\n"+
		"-- GRANT SELECT, INSERT, UPDATE, DELETE ON walrelay.processed_events, walrelay.processed_positions TO ...;\n", comment, name)
}
