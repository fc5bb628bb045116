package replication

import (
	"fmt"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
)

// found is what a database has of the three things that belong together. Nil: absent.
type found struct {
	row         *checkpoint.Row
	publication *Publication
	slot        *Slot
}

// complete: all is there, and was finished.
func (f found) complete() bool {
	return f.row != nil && f.row.State != checkpoint.Creating && f.publication != nil && f.slot != nil
}

// plan is what Setup is to do.
type plan int

const (
	keep   plan = iota // all is there: verify it
	create             // first start: make what is missing
	redo               // an interrupted first start has left a slot: drop it, then as create
)

// decide tells what to do. Only where nothing was ever relayed may anything be made: a slot made anew starts now, and
// the events between the old one and now would be missing in silence.
func (f found) decide(server *Server, slot, publication string, init bool) (plan, error) {
	if f.slot != nil {
		if err := f.slot.Usable(server.Database); err != nil {
			return 0, err
		}
	}
	switch {
	case f.row == nil:
		return f.withoutRow(slot, publication, init)
	case f.row.State == checkpoint.Creating:
		return f.interrupted(slot, init)
	case f.row.State == checkpoint.Repairing:
		return 0, &SetupError{
			Code:    fault.RepairUnfinished,
			Problem: fmt.Sprintf("a repair of slot %s was begun and has not ended", slot),
			Remedy:  "to begin it anew and end it: walrelay repair",
		}
	case f.row.SystemID != server.SystemID:
		return 0, f.foreign(server, slot)
	case f.slot == nil:
		return 0, &SetupError{
			Code: fault.SlotMissing,
			Problem: fmt.Sprintf("slot %s does not exist any more, the row in walrelay.checkpoint stands at %s; "+
				"events from there on may be missing", slot, f.row.LSN),
			Remedy: "see which and restore them: walrelay repair",
		}
	case f.publication == nil:
		return 0, &SetupError{
			Code: fault.PublicationMissing,
			Problem: fmt.Sprintf("publication %s does not exist any more; rows inserted since it was dropped "+
				"are not in the stream", publication),
			Remedy: "see which and restore them: walrelay repair",
		}
	}
	return keep, nil
}

func (f found) withoutRow(slot, publication string, init bool) (plan, error) {
	switch {
	case f.slot != nil && f.publication != nil:
		return 0, &SetupError{
			Code:    fault.SlotUnadopted,
			Problem: fmt.Sprintf("slot %s exists, but walrelay.checkpoint has no row for it", slot),
			Remedy:  "to go on from the slot's position: walrelay slot adopt",
		}
	case f.slot != nil:
		return 0, &SetupError{
			Code: fault.SetupUnclear,
			Problem: fmt.Sprintf("slot %s exists, but publication %s does not; one made now is younger than the slot, "+
				"which cannot read what is older", slot, publication),
			Remedy: fmt.Sprintf("to take the slot over from another program: walrelay slot adopt; "+
				"if nothing else uses it: SELECT pg_drop_replication_slot('%s'); then walrelay init", slot),
		}
	case f.publication != nil && !init:
		return 0, &SetupError{
			Code:    fault.SetupUnclear,
			Problem: fmt.Sprintf("publication %s exists, but slot %s does not; this may not be the first start", publication, slot),
			Remedy:  "if nothing was relayed from here yet: walrelay init",
		}
	}
	return create, nil
}

// interrupted: the row says that a first start was not finished, so that nothing was relayed yet.
func (f found) interrupted(slot string, init bool) (plan, error) {
	switch {
	case f.slot == nil:
		return create, nil
	case init:
		return redo, nil
	}
	return 0, &SetupError{
		Code:    fault.SetupInterrupted,
		Problem: fmt.Sprintf("the setup of slot %s was interrupted", slot),
		Remedy:  "walrelay init drops the half-made slot and begins again",
	}
}

// foreign: the row came with a dump, or the server was upgraded. Its position means nothing here.
func (f found) foreign(server *Server, slot string) error {
	problem := fmt.Sprintf("the row of slot %s in walrelay.checkpoint was written on system %s, this is system %s",
		slot, f.row.SystemID, server.SystemID)
	if f.slot != nil {
		return &SetupError{Code: fault.SlotUnadopted, Problem: problem, Remedy: "to go on from the slot's position: walrelay slot adopt"}
	}
	return &SetupError{
		Code:    fault.History,
		Problem: problem + " (a restored dump?)",
		Remedy:  fmt.Sprintf("to begin anew here: DELETE FROM walrelay.checkpoint WHERE slot = '%s'; then walrelay init", slot),
	}
}
