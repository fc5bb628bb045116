// Package inbox makes the effect of an event happen once, although Kafka may deliver it more often: what was processed is
// remembered in the same transaction as the effect. It works in the caller's transaction, of pgx or (through outbox.SQL) of
// database/sql, in any database that has the schema walrelay (walrelay init --schema-only).
//
// Once remembers each event by its id. OnceInOrder remembers one position for each partition, which is cheaper, and needs
// events to be processed in the order of their partition. Package consumer is a ready consumer on top of both.
//
// It keeps no state; every function may be called from several goroutines, each with a transaction of its own.
package inbox
