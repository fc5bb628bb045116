// Package audit is the oracle: it compares the rows that were committed with the records that are in the topics, and
// counts what is lost, duplicated, reordered or foreign.
//
// It is a pure function of both. Reading the table and the topics is its caller's work, and so is knowing what order is
// right: a sequence number per key that was taken under a row lock in the transaction of the row.
//
// It holds all rows and records in memory. It starts no goroutine and keeps no state between calls.
package audit
