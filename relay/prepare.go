package relay

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/router"
)

// base is what a run needs to know of the database before it takes the slot.
type base struct {
	config      *pgx.ConnConfig
	databaseOID uint32
	ahead       uint64
	catalogs    map[string]router.Catalog
}

func (r *Relay) prepare(ctx context.Context) (base, error) { panic("later") }

func classOf(err error) string { return "postgres" }
