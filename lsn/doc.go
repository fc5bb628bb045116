// Package lsn has the positions of the write-ahead log that decide what is lost and what is repeated.
//
// Postgres sends a transaction again exactly when the start of its commit record is not below the
// confirmed position (manual, "Logical Decoding Concepts"; LogicalConfirmReceivedLocation in the source).
// So two positions exist that must never be mixed up: Start names a transaction, End is what may be
// confirmed. They are two types with one comparison between them, Start.CoveredBy.
//
// The package is pure: no I/O, clock, goroutine or logger.
package lsn
