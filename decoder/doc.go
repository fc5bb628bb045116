// Package decoder reads the messages of Postgres' pgoutput plugin, protocol version 1: what one XLogData
// message of a logical replication stream carries (manual, "Logical Replication Message Formats").
//
// The bytes come from a server and are not trusted: whatever they are, Decode neither panics nor allocates more
// than a small multiple of what it was given. A frame that is cut, too long, of an unknown type, or at odds with
// the frames before it is a *FrameError, and the caller has to stop: skipping a frame may skip an event.
//
// BEGIN, COMMIT, RELATION, INSERT and logical messages are decoded. UPDATE, DELETE, TRUNCATE, TYPE and ORIGIN
// are recognised and their structure is checked, but their content is not kept: an outbox has no use for it.
// Values stay in the format the server chose; turning them into something else is the router's work. Streamed and
// prepared transactions (protocol versions 2 to 4) are refused.
//
// Decode allocates for RELATION only. All it returns is a slice of the frame or a field of the Decoder, valid
// until the next Decode and as long as the caller leaves the frame alone; a *Relation alone stays valid.
//
// The package is pure: no I/O, clock, goroutine or logger. A Decoder belongs to one goroutine.
package decoder
