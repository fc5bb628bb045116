package relay

import (
	"errors"
	"fmt"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
)

// StopError ends the relay: trying again changes nothing, a person must act.
type StopError struct {
	// Code is its kind; empty: that of Err.
	Code fault.Code
	// Reason says what is wrong.
	Reason string
	// Remedy is what mends it.
	Remedy string
	// Err is the cause where there is one.
	Err error
}

// Error is reason, cause and remedy in one line.
func (e *StopError) Error() string {
	text := e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// FaultCode is the kind of the error.
func (e *StopError) FaultCode() fault.Code {
	if e.Code == "" {
		return fault.Of(e.Err)
	}
	return e.Code
}

// Unwrap is the cause.
func (e *StopError) Unwrap() error { return e.Err }

var (
	// errStopped: the relay was told to stop, and did in order.
	errStopped = errors.New("stopped")
	// errShuttingDown: Postgres wants to shut down and waits for us.
	errShuttingDown = errors.New("postgres is shutting down")
	// errChanged: rows were inserted that are not in the stream, or may have been.
	errChanged = fmt.Errorf("the publication or an outbox table was changed: %w", errHistory)
	// errHistory: the server does not go on where the last connection ended, or another relay has gone on there; the run
	// starts anew.
	errHistory = errors.New("the server's history is not the one that was being read")
)

// classOf is the label of an error in metrics and log.
func classOf(err error) string {
	var session *kafka.SessionError
	var refused *checkpoint.RefusedError
	var stop *StopError
	switch {
	case errors.As(err, &session):
		return "kafka"
	case errors.As(err, &refused):
		return "checkpoint"
	case errors.As(err, &stop), errors.Is(err, errHistory):
		return "relay"
	}
	return "postgres"
}
