// Package relay is the order of steps: from the slot's stream through decoder and router into Kafka, and back
// from Kafka's acknowledgement through the window and the checkpoint row to the position that Postgres is
// told. It is also where each failure gets its meaning.
//
//	replication.Stream ─▶ decoder ─▶ router ─▶ kafka.Producer ══▶ Kafka
//	      ▲                                          │ acknowledged
//	      └── status ◀── saver (checkpoint row) ◀── Window
//
// flow.go is the data's path, one goroutine for one run. relay.go starts and ends a run, supervise.go decides
// what an ended run means, saver.go makes positions durable, monitor.go looks at the slot, messages.go
// is the outbox without a table.
//
// Invariant: the position that Postgres is told never exceeds the end of any transaction that has an
// unacknowledged message (I1 of docs/design.md).
package relay
