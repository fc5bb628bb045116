// Package audit compares the rows of outbox tables with the records of topics: which rows have their record, which have
// none, which have several. The proof that nothing was lost, walrelay verify, walrelay repair and the backfill of rows
// from before the first start are all this comparison, followed by another step.
//
// The order of calls of an Audit:
//
//	Load       the rows, in a snapshot; each becomes a message by the very mapping of the relay
//	Expect     what the slot is still going to send counts as found (the proof only)
//	Compare    reads the topics and strikes the rows off
//	Missing    reads the tables again for the rows that are left, or Publish puts them into their topics
//
// A row and a record are the same event when topic, key, id and value are equal. Identities (walrelay.lsn) are not in the
// tables, and ids alone are not unique over the years.
//
// Memory follows the rows that are compared, not the topics and not the size of rows: 140 bytes a row at most, see
// BenchmarkLedger. So a caller loads candidates, not tables: rows whose transaction may not be in Kafka (Horizon).
//
// What the comparison cannot know: rows that were deleted before it. Report.Provable tells whether there is a sign of
// that.
//
// An Audit belongs to one goroutine. The package starts none.
package audit
