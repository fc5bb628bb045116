// Package migrations holds the tables that walrelay needs in Postgres, as embedded SQL: the schema walrelay with the
// checkpoint table, kept up to date by goose in its own version table walrelay.schema_version, and the outbox table
// for those who have none yet.
//
// It never alters an outbox table, and creates one only where the caller has seen that it is absent. It knows
// nothing of slots and publications; package replication puts those together with this (Setup, Script).
//
// Concurrency: the functions may be called from several processes at once; advisory locks put them in order.
package migrations
