// Package replication is the Postgres side of the relay: the outbox tables, the publication, the slot, and
// the stream of the write-ahead log.
//
// Conn and Stream are the only owners of the replication connection. One goroutine uses them, for reading
// and for status alike; two in this field broke by letting a second one write (see docs/design.md). Only
// Stream.Wake may be called by others. The other files, from setup.go on, use an
// ordinary connection and run before the stream starts.
//
// The package knows the replication protocol's frames, not what is in them: WAL data goes to the decoder as
// bytes. It decides no position: the caller says what may be confirmed.
package replication
