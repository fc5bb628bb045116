package replication

import "context"

// SetupSchema makes or updates the schema walrelay alone, for the database of an application that consumes events and has
// no outbox. It needs neither a slot nor wal_level = logical. noSubscribers and report are as in SetupOptions.
func SetupSchema(ctx context.Context, cfg Config, noSubscribers []string, report func(Step)) error {
	_, err := withSetup(ctx, cfg, SetupOptions{Init: true, NoSubscribers: noSubscribers, Report: report}, (*setup).schemaAlone)
	return err
}

func (s *setup) schemaAlone(ctx context.Context) (err error) {
	if s.Server, err = InspectServer(ctx, s.conn); err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	return s.migrate(ctx)
}
