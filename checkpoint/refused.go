package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
)

// Guard names the condition that refused a write.
type Guard string

// The guards of Claim and Save, in the order in which they are looked at.
const (
	// GuardRow: there is no row.
	GuardRow Guard = "row"
	// GuardState: the row is in a state that does not allow it.
	GuardState Guard = "state"
	// GuardServer: the connection reaches another server, or another timeline, than the stream.
	GuardServer Guard = "server"
	// GuardHistory: the row comes from another system: a dump, or a copy of the table.
	GuardHistory Guard = "history"
	// GuardEpoch: another relay has claimed the row since.
	GuardEpoch Guard = "epoch"
	// GuardPosition: the position would go down (Save), or the row's lies beyond the server's WAL (Claim).
	GuardPosition Guard = "position"
	// GuardCluster: the row belongs to another Kafka cluster.
	GuardCluster Guard = "cluster"
	// GuardSlot: somebody holds the slot, or there is none (Adopt).
	GuardSlot Guard = "slot"
	// GuardRace: the row was changed by somebody else at the same moment; the same call again tells more.
	GuardRace Guard = "race"
)

// RefusedError says why a write was refused. The row is unchanged.
type RefusedError struct {
	Guard Guard
	// Reason says what was compared; Remedy, where a person must act, what to do.
	Reason, Remedy string
}

// Error is the reason and the remedy in one line.
func (e *RefusedError) Error() string {
	text := "refused: " + e.Reason
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// FaultCode is the kind of the error.
func (e *RefusedError) FaultCode() fault.Code {
	switch e.Guard {
	case GuardServer, GuardHistory, GuardPosition:
		return fault.History
	case GuardEpoch, GuardRace:
		return fault.CheckpointTaken
	case GuardCluster:
		return fault.KafkaCluster
	case GuardSlot:
		return fault.SlotHeld
	}
	return fault.CheckpointRow
}

// found is what the guards see: the server at the other end, and the row.
type found struct {
	systemID string
	timeline int32
	insert   lsn.End
	exists   bool
	row      Row
}

// check is one guard: nil when it lets the write pass.
type check func(want Row, have found) *RefusedError

var (
	createChecks = []check{unlessCreating}
	readyChecks  = []check{rowExists, unlessCreating}
	claimChecks  = []check{rowExists, inUse, sameServer, sameHistory, notBeyondServer}
	saveChecks   = []check{rowExists, inUse, sameServer, sameHistory, myEpoch, notDownwards, sameCluster}
)

// explain finds the guard that refused. It is a second statement: it only words the answer.
func explain(ctx context.Context, conn *pgx.Conn, want Row, checks []check) error {
	var have found
	var insert, position string
	err := conn.QueryRow(ctx, explainSQL, want.Slot).Scan(&have.systemID, &have.timeline, &insert, &have.exists,
		&have.row.State, &have.row.SystemID, &have.row.Epoch, &position, &have.row.KafkaClusterID)
	if err == nil {
		have.insert, err = lsn.ParseEnd(insert)
	}
	if err == nil {
		have.row.LSN, err = lsn.ParseEnd(position)
	}
	if err != nil {
		return fmt.Errorf("refused, and the reason cannot be read: %w", err)
	}
	for _, check := range checks {
		if refused := check(want, have); refused != nil {
			return refused
		}
	}
	return &RefusedError{Guard: GuardRace, Reason: "the row changed at the same moment"}
}

func rowExists(_ Row, have found) *RefusedError {
	if have.exists {
		return nil
	}
	return &RefusedError{GuardRow, "walrelay.checkpoint has no row for the slot", "run walrelay slot adopt"}
}

func unlessCreating(_ Row, have found) *RefusedError {
	if !have.exists || have.row.State == Creating {
		return nil
	}
	return &RefusedError{GuardState, fmt.Sprintf("the row exists and its state is %s", have.row.State), ""}
}

func inUse(_ Row, have found) *RefusedError {
	if slices.Contains([]State{Ready, Clean, Drained}, have.row.State) {
		return nil
	}
	if have.row.State == Repairing {
		return &RefusedError{GuardState, "a repair was begun and has not ended", "run walrelay repair"}
	}
	return &RefusedError{GuardState, fmt.Sprintf("the row's state is %s", have.row.State), "run walrelay init"}
}

func sameServer(want Row, have found) *RefusedError {
	if have.systemID == want.SystemID && have.timeline == want.Timeline {
		return nil
	}
	return &RefusedError{GuardServer,
		fmt.Sprintf("the connection reaches system %s on timeline %d, the stream comes from system %s on timeline %d",
			have.systemID, have.timeline, want.SystemID, want.Timeline),
		"both connections must reach the same primary: give one host, or target_session_attrs=read-write"}
}

func sameHistory(want Row, have found) *RefusedError {
	if have.row.SystemID == want.SystemID {
		return nil
	}
	return &RefusedError{GuardHistory,
		fmt.Sprintf("the row was written on system %s, this is system %s (a restored dump?)",
			have.row.SystemID, want.SystemID),
		"to go on here at the slot's position: walrelay slot adopt"}
}

func myEpoch(want Row, have found) *RefusedError {
	if have.row.Epoch == want.Epoch {
		return nil
	}
	return &RefusedError{GuardEpoch,
		fmt.Sprintf("another relay has started since: epoch %d, mine is %d", have.row.Epoch, want.Epoch), ""}
}

func notBeyondServer(_ Row, have found) *RefusedError {
	if have.row.LSN <= have.insert {
		return nil
	}
	return &RefusedError{GuardPosition,
		fmt.Sprintf("the row's position %s lies beyond the server's WAL, which ends at %s", have.row.LSN, have.insert),
		"the row is not of this server's history; see what is missing: walrelay repair"}
}

func notDownwards(want Row, have found) *RefusedError {
	if have.row.LSN <= want.LSN {
		return nil
	}
	return &RefusedError{GuardPosition,
		fmt.Sprintf("the position would go down from %s to %s", have.row.LSN, want.LSN), ""}
}

func sameCluster(want Row, have found) *RefusedError {
	if want.KafkaClusterID == "" || have.row.KafkaClusterID == "" || have.row.KafkaClusterID == want.KafkaClusterID {
		return nil
	}
	return &RefusedError{GuardCluster,
		fmt.Sprintf("the events of this slot are in Kafka cluster %s, not in %s",
			have.row.KafkaClusterID, want.KafkaClusterID),
		"give the relay its own slot, or move this one: walrelay slot adopt --new-kafka-cluster"}
}
