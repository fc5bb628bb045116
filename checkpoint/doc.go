// Package checkpoint knows how far the relay has come: which position Postgres may be told, and which one a later
// run can rely on.
//
// Window (window.go) turns acknowledgements, which arrive in any order, into the one position that may be
// confirmed: the end of the longest run of transactions of which every message is in Kafka. It is pure (no I/O,
// clock, lock or goroutine) and belongs to the goroutine that reads the stream. State that cannot go on
// safely panics: a wrong position loses events without a trace, a crash only repeats some.
//
// Store (store.go) keeps that position in the database, one row a slot. Postgres itself forgets
// a confirmed position in a crash, and a position kept elsewhere may belong to another history. A row is
// in the history of the server that shows it. Everything in it is written before Postgres is told. A Store
// belongs to one goroutine too, usually another one, since it waits for the database.
//
// The package neither reads the stream nor talks to Postgres about the slot, and it does not decide what a row
// that does not fit means.
package checkpoint
