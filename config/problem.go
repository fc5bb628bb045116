package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/walrelay/walrelay/fault"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	// Key is the key, such as kafka.linger; or the variable or file when that itself is wrong.
	Key string
	// Value is what it was set to; empty where that does not matter or is a secret.
	Value string
	// From is the source: a flag, a variable, or a file with the line. Empty when it has its default.
	From string
	// Want says what is wanted instead.
	Want string
}

// String is the problem as one line.
func (p Problem) String() string {
	text := p.Key
	if p.Value != "" {
		text += fmt.Sprintf(" = %q", p.Value)
	}
	if p.From != "" {
		text += " (" + p.From + ")"
	}
	return text + ": " + p.Want
}

// Problems is an error with everything that is wrong.
type Problems []Problem

// Error is one line for one problem, else a line for each.
func (p Problems) Error() string {
	if len(p) == 1 {
		return "configuration: " + p[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d problems", len(p))
	for _, problem := range p {
		b.WriteString("\n  " + problem.String())
	}
	return b.String()
}

// FaultCode is the kind of the error.
func (p Problems) FaultCode() fault.Code { return fault.Configuration }

// Without is the error without the problems of a key that the caller does not need.
func (p Problems) Without(key string) error {
	return slices.DeleteFunc(slices.Clone(p), func(problem Problem) bool { return problem.Key == key }).err()
}

// err is nil when there is no problem; a nil Problems in an error would not be.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
