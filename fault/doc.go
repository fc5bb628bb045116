// Package fault is the catalogue of what can keep walrelay from relaying: a code for each kind of error, what it means and
// what mends it. docs/errors.md is generated from it. The texts of the errors themselves name the table, slot or topic and
// the exact statement; a code stays the same when they change.
//
// It is pure: constants and one function.
package fault
