package relay

import (
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/replication"
)

// SlotWatch are the bytes of log that a slot may make the server keep before the relay says so.
type SlotWatch struct {
	// Warn: it is said in the log, the status and the metrics. Unready: /readyz fails as well. Where max_slot_wal_keep_size
	// sets a limit, they also apply at half of it and at four fifths. Defaults 4 GiB and 16 GiB.
	Warn, Unready int64
}

// Defaults of SlotWatch.
const (
	DefaultSlotWarn    = 4 << 30
	DefaultSlotUnready = 16 << 30
)

// Level is how much in danger a slot is.
type Level string

// The levels of a slot.
const (
	SlotOK      Level = "ok"
	SlotWarn    Level = "warn"
	SlotUnready Level = "unready"
)

// slotLevels are all values of Level.
var slotLevels = []Level{SlotOK, SlotWarn, SlotUnready}

// SlotFinding is what is wrong with the slot, in the words for a person.
type SlotFinding struct {
	Level Level `json:"level"`
	// Problem and Remedy are empty while all is well; the remedy has the statements that mend it.
	Problem string `json:"problem,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Judge tells how much in danger a slot is, and what to do. position is what was confirmed, as a distance in bytes from
// the end of the log, which the log is kept for anyway.
func (s SlotWatch) Judge(name string, w *replication.Watch) SlotFinding {
	switch {
	case w.Slot == nil:
		return SlotFinding{SlotUnready, fmt.Sprintf("slot %s does not exist", name),
			"see which events are missing and restore them: walrelay repair (nothing was relayed yet: walrelay run makes it)"}
	case w.Slot.WALStatus == "lost":
		return SlotFinding{SlotUnready, fmt.Sprintf("slot %s is lost (%s)", name, lostReason(w.Slot)),
			"see which events are missing and restore them: walrelay repair"}
	}
	level, problem := s.level(name, w)
	if level == SlotOK {
		return SlotFinding{Level: SlotOK}
	}
	return SlotFinding{level, problem, slotRemedy(w)}
}

func lostReason(slot *replication.Slot) string {
	if slot.InvalidationReason != "" {
		return slot.InvalidationReason
	}
	return "it kept more log than max_slot_wal_keep_size allows"
}

func (s SlotWatch) level(name string, w *replication.Watch) (Level, string) {
	kept := fmt.Sprintf("slot %s makes the server keep %s of log", name, Bytes(w.Retained))
	if w.Slot.WALStatus == "unreserved" {
		return SlotUnready, kept + " and is lost at the server's next checkpoint"
	}
	if safe := w.Slot.SafeWALSize; safe != nil && w.KeepLimit > 0 {
		kept += fmt.Sprintf("; it is lost when %s more are written (max_slot_wal_keep_size)", Bytes(max(0, *safe)))
		if *safe < w.KeepLimit/5 {
			return SlotUnready, kept
		}
		if *safe < w.KeepLimit/2 {
			return SlotWarn, kept
		}
	}
	switch {
	case w.Retained >= s.Unready:
		return SlotUnready, kept
	case w.Retained >= s.Warn:
		return SlotWarn, kept
	}
	return SlotOK, ""
}

// slotRemedy names what keeps the log: transactions, or else what was not confirmed.
func slotRemedy(w *replication.Watch) string {
	var remedies []string
	if pinned := w.Retained - w.Unconfirmed; len(w.Pins) > 0 && pinned > w.Retained/2 {
		remedies = append(remedies, "a long transaction keeps it: "+w.Pins[0].String())
	} else {
		remedies = append(remedies, fmt.Sprintf("%s of it are not confirmed: look what keeps walrelay from publishing (walrelay status, walrelay doctor)",
			Bytes(w.Unconfirmed)))
	}
	if w.KeepLimit < 0 {
		remedies = append(remedies, LimitAdvice)
	} else if w.Slot.SafeWALSize != nil {
		remedies = append(remedies, fmt.Sprintf("to gain time while the disk has room: ALTER SYSTEM SET max_slot_wal_keep_size = '%dMB'; SELECT pg_reload_conf();",
			2*w.KeepLimit>>20))
	}
	return strings.Join(remedies, "; ")
}

// LimitAdvice is the remedy where nothing bounds the log that a slot may keep.
const LimitAdvice = "set a limit, so that a relay which stays away cannot fill the disk of the primary, such as half of what is free there: " +
	"ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'; SELECT pg_reload_conf(); (RDS, Cloud SQL: the parameter or flag of that name; " +
	"CloudNativePG: spec.postgresql.parameters; Azure sets no limit: alert on free storage)"

// Bytes is a size for people.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// watched logs that the slot's level has changed.
func (r *Relay) watched(before, now SlotFinding) {
	switch {
	case before.Level == now.Level:
	case now.Level == SlotOK:
		if before.Level != "" {
			r.log.Info("the slot is out of danger")
		}
	default:
		r.log.Warn("the slot is in danger", zap.String("level", string(now.Level)), zap.String("problem", now.Problem), zap.String("remedy", now.Remedy))
	}
}
