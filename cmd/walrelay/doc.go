// Command walrelay relays the rows of an outbox table in Postgres to Kafka. It has one file for each subcommand; what
// they do is done by the packages, and here is only what belongs to a program: flags, output, signals, exit codes.
//
// Nothing here is global but the version that the linker sets: a program has its streams and environment as fields, so
// that tests run it like a person does.
package main
