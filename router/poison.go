package router

import "fmt"

// PoisonError is a property of one record alone: the same row will fail in the same way for ever, whatever the
// state of Kafka and Postgres. Trouble with a topic is never a PoisonError.
type PoisonError struct {
	Reason string // for a person; carries names and at most the start of a routing value, never a payload
}

func (e *PoisonError) Error() string { return e.Reason }

func poison(format string, args ...any) error {
	return &PoisonError{Reason: fmt.Sprintf(format, args...)}
}

// clip shortens a value of the row for an error message.
func clip(value []byte) string {
	const most = 64
	if len(value) > most {
		return fmt.Sprintf("%q… (%d bytes)", value[:most], len(value))
	}
	return fmt.Sprintf("%q", value)
}
