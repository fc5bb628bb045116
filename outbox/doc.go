// Package outbox writes events into the outbox inside the caller's own transaction, so that they are published if and only
// if it commits. It imports pgx and nothing else, and takes a pgx.Tx as it is and, through SQL, a *sql.Tx or whatever
// wraps one (GORM, ent, sqlx, bun).
//
// An event goes into a table (the zero Outbox: what walrelay init creates) or, with Outbox.Prefix, into the log alone, where
// the relay has messages enabled.
//
// It does not publish; that is the relay's work. It keeps no state but the time of the newest id; every function may be
// called from several goroutines, each with a transaction of its own.
package outbox
