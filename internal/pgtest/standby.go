package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// StandbySlot is the physical slot on a primary that its standby streams from. For synchronized_standby_slots.
const StandbySlot = "standby"

// firstWithSlotSync is the first major version whose standbys can synchronise logical slots.
const firstWithSlotSync = 17

// Standby stops the server in order, copies it, starts it again on the same port, and starts the copy as its physical
// standby, which streams from the slot StandbySlot and, from 17 on, synchronises failover slots. There is one standby at a
// time. The caller must Close it.
//
// The embedded binaries have no pg_basebackup; a copy of a stopped server needs no backup mode, and nothing that a test
// could meet halfway.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	standby, err := s.copied(ctx)
	if err == nil {
		err = s.Start(ctx)
	}
	if err == nil {
		_, err = s.ask(ctx, "SELECT pg_create_physical_replication_slot('"+StandbySlot+"', true)")
	}
	if err == nil {
		err = standby.startOnFreePort(ctx)
	}
	if err == nil {
		err = standby.awaitAnswer(ctx, "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'", "1")
	}
	if err == nil {
		return standby, nil
	}
	if standby != nil {
		err = errors.Join(err, standby.Close())
	}
	return nil, fmt.Errorf("make a standby of PostgreSQL %s: %w", s.version, err)
}

// copied stops the server and makes a copy of it that starts as its standby.
func (s *Server) copied(ctx context.Context) (*Server, error) {
	if err := s.Stop(ctx, "fast"); err != nil {
		return nil, err
	}
	dir, err := temporaryDir(s.account)
	if err != nil {
		return nil, err
	}
	standby := &Server{version: s.version, bin: s.bin, dir: dir, ours: true, settings: defaults(), account: s.account}
	if err := s.account.own(dir); err != nil {
		return standby, err
	}
	if err := s.CopyData(dir); err != nil {
		return standby, err
	}
	slots := filepath.Join(dir, "pg_replslot") // they are the primary's
	if err := os.RemoveAll(slots); err != nil {
		return standby, err
	}
	signal := filepath.Join(dir, "standby.signal")
	if err := os.Mkdir(slots, 0o700); err != nil {
		return standby, err
	}
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return standby, err
	}
	for _, path := range []string{slots, signal} {
		if err := s.account.own(path); err != nil {
			return standby, err
		}
	}
	standby.settings["primary_conninfo"] = fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable application_name=standby", s.port)
	standby.settings["primary_slot_name"] = StandbySlot
	standby.settings["hot_standby_feedback"] = "on"
	if major, err := strconv.Atoi(s.version); err == nil && major >= firstWithSlotSync {
		standby.settings["sync_replication_slots"] = "on"
	}
	return standby, nil
}

// Promote makes a standby a primary on the next timeline and waits until it is one.
func (s *Server) Promote(ctx context.Context) error {
	promoted, err := s.ask(ctx, "SELECT pg_promote(true, 30)")
	if err == nil && promoted != "t" {
		err = errors.New("not within 30 s")
	}
	if err != nil {
		return fmt.Errorf("promote PostgreSQL %s: %w", s.version, err)
	}
	return nil
}

// AwaitSlotSynced waits, on a standby, until a failover slot of the primary would survive a promotion. At first a
// synchronised slot is a temporary one, until the primary's has moved beyond what the standby keeps; the primary has to
// write and confirm for that. Each poll writes a snapshot of the running transactions there, which lets its slot move, and
// makes the standby reload its settings, which wakes its worker from a nap of up to 30 s.
func (s *Server) AwaitSlotSynced(ctx context.Context, primary *Server, slot string) error {
	query := "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" + slot +
		"' AND synced AND NOT temporary AND invalidation_reason IS NULL"
	for {
		if _, err := primary.ask(ctx, "SELECT pg_log_standby_snapshot()"); err != nil {
			return fmt.Errorf("wait until slot %s is synchronised: %w", slot, err)
		}
		if _, err := s.ask(ctx, "SELECT pg_reload_conf()"); err != nil {
			return fmt.Errorf("wait until slot %s is synchronised: %w", slot, err)
		}
		limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		err := s.awaitAnswer(limited, query, "1")
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait until slot %s is synchronised: %w", slot, err)
		}
	}
}

// AwaitReplayed waits, on a standby, until it has replayed what the primary has written until now.
func (s *Server) AwaitReplayed(ctx context.Context, primary *Server) error {
	end, err := primary.ask(ctx, "SELECT pg_current_wal_flush_lsn()")
	if err != nil {
		return fmt.Errorf("wait until the standby has replayed everything: %w", err)
	}
	return s.awaitAnswer(ctx, "SELECT pg_last_wal_replay_lsn() >= '"+end+"'", "t")
}

// awaitAnswer polls until a query answers so.
func (s *Server) awaitAnswer(ctx context.Context, query, want string) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		got, err := s.ask(ctx, query)
		if err == nil && got == want {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (last answer: %q, %v)", query, context.Cause(ctx), got, err)
		}
	}
}

// ask returns the first value of a query's first row.
func (s *Server) ask(ctx context.Context, query string) (string, error) {
	conn, err := pgconn.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}
