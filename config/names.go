package config

import (
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/replication"
)

// names are those of the slot and the publication in effect. The database is the one that Postgres takes: the user's
// name where the URL has none.
func (c Config) names() (slot, publication string) {
	database := ""
	if parsed, err := pgconn.ParseConfig(c.Postgres.URL.Reveal()); err == nil {
		database = parsed.Database
		if database == "" {
			database = parsed.User
		}
	}
	r := replication.Config{Slot: c.Postgres.Slot, Publication: c.Postgres.Publication}
	return r.Names(database)
}
