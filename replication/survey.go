package replication

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
)

// Survey is what a database has for a relay, looked at without changing anything.
type Survey struct {
	Server *Server
	// Slot and Publication are the names, with the defaults filled in.
	Slot, Publication string
	// Tables are the outbox tables, and Filters the publication's row filter of each, as SQL; empty: none.
	Tables  []*Table
	Filters []string
	// Row is the slot's row in walrelay.checkpoint; nil: none.
	Row *checkpoint.Row
	// At is the slot; nil: none.
	At          *Slot
	publication *Publication
}

// Look surveys the database of an ordinary connection. Every table must be there and pass check (which may be nil).
func Look(ctx context.Context, conn *pgx.Conn, cfg Config, tables []string, check func(*Table) error) (*Survey, error) {
	server, err := InspectServer(ctx, conn)
	if err != nil {
		return nil, err
	}
	s := &Survey{Server: server}
	s.Slot, s.Publication = cfg.Names(server.Database)
	if err := CheckSlotName(s.Slot); err != nil {
		return nil, err
	}
	for _, name := range tables {
		table, err := FindTable(ctx, conn, name)
		if err == nil && table == nil {
			err = absentError(name, nil, false)
		}
		if err == nil && check != nil {
			err = check(table)
		}
		if err != nil {
			return nil, err
		}
		s.Tables = append(s.Tables, table)
	}
	if s.publication, err = FindPublication(ctx, conn, server.Version, s.Publication); err != nil {
		return nil, err
	}
	if s.Filters, err = s.filters(ctx, conn); err != nil {
		return nil, err
	}
	if s.At, err = InspectSlot(ctx, conn, s.Slot); err != nil {
		return nil, err
	}
	return s, s.row(ctx, conn)
}

// row loads the slot's row over a connection of its own.
func (s *Survey) row(ctx context.Context, conn *pgx.Conn) error {
	store := checkpoint.NewStore(checkpoint.Always(conn.Config()))
	defer closeQuietly(store.Close)
	row, ok, err := store.Load(ctx, s.Slot)
	if ok {
		s.Row = &row
	}
	return err
}

// filters asks for the row filters, which publications have from 15 on.
func (s *Survey) filters(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	filters := make([]string, len(s.Tables))
	if s.Server.Version < firstWithSchemas || s.publication == nil {
		return filters, nil
	}
	for i, t := range s.Tables {
		err := conn.QueryRow(ctx, `SELECT coalesce((SELECT pg_get_expr(prqual, prrelid) FROM pg_publication_rel
			WHERE prpubid = $1 AND prrelid = $2), '')`, s.publication.row.oid, t.Relation.ID).Scan(&filters[i])
		if err != nil {
			return nil, fmt.Errorf("ask for the row filter of table %s: %w", t.Name(), err)
		}
	}
	return filters, nil
}

// Reading is the configuration of an ordinary connection that reads tables as the stream carries them: every value has the
// same text, no policy hides rows, and it may take long.
func (c *Config) Reading() (*pgx.ConnConfig, error) {
	config, err := c.SQL()
	if err != nil {
		return nil, err
	}
	for name, value := range textSession() {
		config.RuntimeParams[name] = value
	}
	for name, value := range map[string]string{
		"row_security":                        "off", // a query that a policy would filter fails
		"statement_timeout":                   "0",
		"lock_timeout":                        "0",
		"idle_in_transaction_session_timeout": "0",
		"default_transaction_read_only":       "on",
	} {
		config.RuntimeParams[name] = value
	}
	return config, nil
}
