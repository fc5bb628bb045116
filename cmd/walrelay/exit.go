package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/prune"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

// The exit codes. A supervisor may restart after exitUnexpected; the others come again until somebody acts.
const (
	exitStopped       = 0
	exitUnexpected    = 1
	exitConfiguration = 2
	exitPerson        = 3
	exitUnprovable    = 4
	exitDifferences   = 5
)

const exitCodes = `Exit codes:
  0    stopped as asked, or done
  1    unexpected; a restart may help
  2    configuration or usage
  3    needs a person: the message says what to do
  4    repair: done, and nobody can tell whether more was missing
  5    verify, repair: rows are missing in their topics, or records are twice or out of order
  130  a second Ctrl-C (143: a second SIGTERM) did not wait for the end`

// usageError is a wrong command line.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v; see %s --help", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

// FaultCode is the kind of the error.
func (e *usageError) FaultCode() fault.Code { return fault.Usage }

// listenError is an address that HTTP cannot have, which is a matter of the configuration.
type listenError struct{ error }

// FaultCode is the kind of the error.
func (listenError) FaultCode() fault.Code { return fault.HTTPListen }

// report writes the error as a person wants to read it and returns the exit code.
func (p *program) report(err error) int {
	if err == nil {
		return exitStopped
	}
	text := err.Error()
	var problems config.Problems
	if !errors.As(err, &problems) {
		text = oneLine(err)
	}
	switch code := replication.FaultOf(err); code {
	case "", fault.Usage, fault.Configuration, fault.Unexpected: // the text is all that there is to say
	default:
		text += fmt.Sprintf(" [%s]", code)
	}
	fmt.Fprintf(p.err, "walrelay: %s\n", text)
	for _, problem := range problems {
		if problem.Key == "postgres.url" && problem.Value == "" || problem.Key == "kafka.brokers" && problem.Value == "" {
			fmt.Fprintln(p.err, "example:\n"+example)
			break
		}
	}
	return exitCode(err)
}

// oneLine is the text of an error without line breaks. pgconn lists the addresses that it has tried, one a line and some
// twice.
func oneLine(err error) string {
	text, last := "", ""
	for line := range strings.Lines(err.Error()) {
		switch line = strings.TrimSpace(line); {
		case line == "" || line == last:
			continue
		case text == "" || strings.HasSuffix(text, ":"):
			text = strings.TrimSpace(text + " " + line)
		default:
			text += ", " + line
		}
		last = line
	}
	return text
}

const example = `  export WALRELAY_POSTGRES_URL=postgres://user:password@localhost:5432/database
  export WALRELAY_KAFKA_BROKERS=localhost:9092
  walrelay run`

func exitCode(err error) int {
	var (
		usage    *usageError
		listen   listenError
		problems config.Problems
		stop     *relay.StopError
		wire     *replication.WireError
		file     fileError

		undecided   *undecidedError
		differences *differencesError
		unprovable  *unprovableError
		ailing      ailingError
		forbidden   *kafka.ForbiddenError
		halted      *audit.HaltedError
		refused     *prune.RefusedError
	)
	switch {
	case errors.As(err, &usage), errors.As(err, &listen), errors.As(err, &problems), errors.As(err, &file):
		return exitConfiguration
	case errors.As(err, &differences):
		return exitDifferences
	case errors.As(err, &unprovable):
		return exitUnprovable
	case errors.As(err, &ailing), errors.As(err, &stop), errors.As(err, &forbidden), errors.As(err, &halted), errors.As(err, &undecided),
		errors.As(err, &refused):
		return exitPerson
	case errors.As(err, &wire):
		return exitUnexpected
	case replication.Classify(err) == replication.Stop:
		return exitPerson
	}
	return exitUnexpected
}
