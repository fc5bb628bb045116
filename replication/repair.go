package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
)

// RepairOptions says what Repair works on.
type RepairOptions struct {
	// Tables, SlotTimeout, Check and Report are as in SetupOptions.
	Tables      []string
	SlotTimeout time.Duration
	Check       func(*Table) error
	Report      func(Step)
	// Fill publishes what is missing.
	Fill Fill
}

// Repair makes the slot anew after it was lost, re-created or moved: the row says repairing, so that no relay runs; the old
// slot is dropped and the publication made if it is missing; Fill publishes what the snapshot of the new slot has and Kafka
// has not; then the row is ready at the new slot's start. When it fails or is interrupted, the row goes on saying
// repairing, with position and horizon as before, and the next Repair begins anew.
//
// It refuses while a relay holds the slot. Setup and Repair wait for each other.
func Repair(ctx context.Context, cfg Config, o RepairOptions) error {
	_, err := withSetup(ctx, cfg, SetupOptions{
		Tables: o.Tables, Init: true, SlotTimeout: o.SlotTimeout, Check: o.Check, Report: o.Report, Fill: o.Fill,
	}, (*setup).repair)
	return err
}

func (s *setup) repair(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.repairable(); err != nil {
		return err
	}
	if err := s.findTables(ctx, false); err != nil {
		return err
	}
	replica, err := Connect(ctx, s.cfg) // before anything is changed: this needs the privilege most often missing
	if err != nil {
		return err
	}
	defer replica.Close()
	if err := s.migrate(ctx); err != nil {
		return err
	}
	before, err := s.store.BeginRepair(ctx, s.Slot)
	if err != nil {
		return err
	}
	s.changed("row of slot %s says repairing; no relay can start until this has ended", s.Slot)
	if err := s.publish(ctx); err != nil {
		return err
	}
	if err := s.found.publication.Carries(s.Tables); err != nil {
		return err
	}
	return s.remake(ctx, replica, before)
}

// repairable refuses what is not for a repair.
func (s *setup) repairable() error {
	row, slot := s.found.row, s.found.slot
	switch {
	case row == nil && slot == nil && s.found.publication == nil:
		return &SetupError{
			Code:    fault.RepairNothing,
			Problem: fmt.Sprintf("there is neither slot, publication nor row of %s: nothing was relayed from here yet", s.Slot),
			Remedy:  "walrelay init",
		}
	case row != nil && row.State == checkpoint.Creating:
		return &SetupError{
			Code:    fault.SetupInterrupted,
			Problem: fmt.Sprintf("the setup of slot %s was interrupted, so nothing was relayed yet", s.Slot),
			Remedy:  "walrelay init drops the half-made slot and begins again",
		}
	case slot == nil:
		return nil
	case slot.ActivePID != 0:
		return &SetupError{
			Code:    fault.SlotHeld,
			Problem: fmt.Sprintf("slot %s is in use by process %d", s.Slot, slot.ActivePID),
			Remedy:  "stop every walrelay run of this slot first",
		}
	case slot.Type != "logical" || slot.Plugin != "pgoutput" || slot.Database != s.Server.Database:
		return slot.Usable(s.Server.Database) // somebody else's
	}
	return nil
}

// remake replaces the slot.
func (s *setup) remake(ctx context.Context, replica *Conn, before checkpoint.Row) error {
	failover := s.Server.SynchronizedStandbySlots != ""
	if s.found.slot != nil {
		failover = failover || s.found.slot.Failover
		if err := s.dropOld(ctx); err != nil {
			return err
		}
		s.changed("slot %s dropped", s.Slot)
	}
	h, err := s.createSlot(ctx, replica, failover)
	if err != nil {
		return err
	}
	s.changed("slot %s created, starts at %s", s.Slot, h.Row.LSN)
	start := h.Row
	h.Before, h.Row = before, before
	h.Row.LSN, h.Row.Horizon, h.Row.CommitTime, h.Row.Publication = start.LSN, start.Horizon, start.Horizon.Time, s.Fingerprint
	if err := s.o.Fill(ctx, s.Prepared, &h); err != nil {
		return s.withdraw(ctx, err)
	}
	if err := s.store.EndRepair(ctx, h.Row); err != nil {
		return err
	}
	s.changed("row of slot %s is ready at %s", s.Slot, h.Row.LSN)
	return nil
}

// dropOld drops the slot. A relay that waits for it may hold it for a moment, until it sees that it may not.
func (s *setup) dropOld(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := DropSlot(ctx, s.conn, s.Slot)
		var pg *pgconn.PgError
		if attempt == 50 || !errors.As(err, &pg) || pg.Code != codeObjectInUse {
			return err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
