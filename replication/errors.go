package replication

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/fault"
)

// SetupError is a finding that waits for a person: what is wrong with the server, the slot, the publication
// or the table, and what mends it.
type SetupError struct {
	// Code is its kind.
	Code fault.Code
	// Problem says what is wrong, in one line.
	Problem string
	// Remedy is the SQL, the setting or the command that mends it.
	Remedy string
	// Err is the cause where there is one.
	Err error
}

// Error is the problem and its remedy in one line.
func (e *SetupError) Error() string {
	text := e.Problem
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap is the cause.
func (e *SetupError) Unwrap() error { return e.Err }

// FaultCode is the kind of the error.
func (e *SetupError) FaultCode() fault.Code { return e.Code }

// Class is what an error on the Postgres side means for the relay.
type Class int

// The classes, see Classify.
const (
	// Unreachable: the connection broke or cannot be had now. Try again with back-off.
	Unreachable Class = iota
	// Standby: another process holds the slot. Wait for it.
	Standby
	// Stop: trying again changes nothing, a person must act.
	Stop
)

// SQLSTATE codes that decide, Postgres manual appendix A.
const (
	codeObjectInUse         = "55006"
	codeNotInPrerequisite   = "55000"
	codeUndefinedObject     = "42704"
	codeInsufficientPriv    = "42501"
	codeInvalidPassword     = "28P01"
	codeInvalidAuth         = "28000"
	codeInvalidCatalog      = "3D000"
	codeFeatureNotSupported = "0A000"
	codeSyntax              = "42601"
	codeCannotConnectNow    = "57P03"
)

// RefusesConnections tells whether err is a server's that starts, recovers or shuts down. Of a server that streams it means
// that it shuts down.
func RefusesConnections(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeCannotConnectNow
}

// Classify tells what err means. Whatever is not known to need a person counts as Unreachable: the WAL is
// kept by the slot, so that waiting loses nothing.
func Classify(err error) Class {
	var setup *SetupError
	if errors.As(err, &setup) {
		return Stop
	}
	var wire *WireError
	if errors.As(err, &wire) {
		return Stop
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return Stop
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return Unreachable
	}
	switch pg.Code {
	case codeObjectInUse:
		return Standby
	case codeNotInPrerequisite, codeUndefinedObject, codeInsufficientPriv, codeInvalidPassword, codeInvalidAuth,
		codeInvalidCatalog, codeFeatureNotSupported, codeSyntax:
		return Stop
	}
	return Unreachable
}

// FaultOf is the kind of an error, also of one that Postgres has sent.
func FaultOf(err error) fault.Code {
	var pg *pgconn.PgError
	code := fault.Of(err)
	if code != fault.Unexpected || !errors.As(err, &pg) {
		return code
	}
	switch pg.Code {
	case codeObjectInUse:
		return fault.SlotHeld
	case codeNotInPrerequisite:
		return fault.SlotLost
	case codeUndefinedObject:
		return fault.SlotMissing
	case codeInsufficientPriv:
		return fault.RoleRights
	case codeInvalidPassword, codeInvalidAuth, codeInvalidCatalog:
		return fault.PostgresRefused
	}
	return code
}

// WireError is a message of the replication protocol that cannot be understood. Going on behind it could
// skip events, so it ends the relay.
type WireError struct {
	// Type is the protocol message's type byte.
	Type byte
	// Reason says what is wrong with it.
	Reason string
}

// Error names the message and the reason.
func (e *WireError) Error() string {
	return fmt.Sprintf("replication protocol message %q: %s", e.Type, e.Reason)
}

// FaultCode is the kind of the error.
func (e *WireError) FaultCode() fault.Code { return fault.Log }

// errClosedByServer: a shutdown, a timeout or the network; the next connection tells.
var errClosedByServer = errors.New("replication stream: the server ended the stream")
