// Package prune deletes from outbox tables what is surely in Kafka and older than asked: rows in small batches, or whole
// partitions, which it also creates ahead of time. What it deletes it can write to another table or to a file first.
//
// A row is surely in Kafka when its transaction is below the horizon that the relay has saved beside its position; that is
// decided from the row's own transaction id (xmin), not from a time. Nothing is deleted while no horizon is known.
//
// It works with the credentials that it is given, on one connection, in one goroutine. The relay needs no right on an outbox.
package prune
