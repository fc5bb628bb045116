package replication

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Rehearsed is what Setup would find.
type Rehearsed struct {
	// Slot and Publication are the names in use.
	Slot, Publication string
	// First: nothing is there, so that Setup would make it.
	First bool
}

// Rehearse looks at everything that Setup looks at when a relay starts, and changes nothing. Its error is Setup's.
func Rehearse(ctx context.Context, cfg Config, tables []string) (*Rehearsed, error) {
	var first bool
	prepared, err := withSetup(ctx, cfg, SetupOptions{Tables: tables}, func(s *setup, ctx context.Context) error {
		if err := s.begin(ctx); err != nil {
			return err
		}
		plan, err := s.found.decide(s.Server, s.Slot, s.Publication, false)
		if err != nil {
			return err
		}
		if first = plan != keep; first {
			return nil
		}
		return s.verify(ctx)
	})
	if err != nil {
		return nil, err
	}
	return &Rehearsed{Slot: prepared.Slot, Publication: prepared.Publication, First: first}, nil
}

// RefusedConnection words an error of pgx.ConnectConfig, with what may mend it.
func RefusedConnection(err error, config *pgx.ConnConfig) error {
	return connectError(err, &config.Config)
}
