package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
)

// endWalsender ends the server's side of the relay's stream. The server may be away.
func (a *arena) endWalsender(ctx context.Context) {
	ctx, cancel := a.within(ctx, 3*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, a.postgres.URL(database))
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	_, _ = conn.Exec(ctx, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active`).ReadAll()
}

func endWalsender(ctx context.Context, a *arena, _ strike) error {
	a.endWalsender(ctx)
	return nil
}

// takeSlot reads the slot as another program, confirming nothing, while the relay has to wait.
func takeSlot(ctx context.Context, a *arena, s strike) error {
	limit, cancel := a.within(ctx, 20*time.Second)
	defer cancel()
	url := fmt.Sprintf("%s&replication=database&application_name=chaos&wal_sender_timeout=%d",
		a.postgres.URL(database), walSenderTimeout.Milliseconds())
	conn, err := a.openSlot(limit, url)
	if err != nil {
		if a.alone || ctx.Err() != nil {
			return fmt.Errorf("take the slot: %w", err)
		}
		return nil // the server is away
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the server may be gone
	}()
	limit, cancel = context.WithTimeout(ctx, s.lasts)
	defer cancel()
	for {
		if _, err := conn.ReceiveMessage(limit); err != nil {
			return ctx.Err() // the time is over, or the server is
		}
	}
}

// openSlot takes the slot away from the relay, however often that takes it back.
func (a *arena) openSlot(ctx context.Context, url string) (*pgconn.PgConn, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	options := pglogrepl.StartReplicationOptions{PluginArgs: []string{"proto_version '1'", "publication_names '" + slot + "'"}}
	for {
		a.endWalsender(ctx)
		err := pglogrepl.StartReplication(ctx, conn, slot, 0, options)
		var taken *pgconn.PgError
		switch {
		case err == nil:
			return conn, nil
		case !errors.As(err, &taken) || taken.Code != "55006":
			return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		}
	}
}
