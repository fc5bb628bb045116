// Package bench measures walrelay on one machine beside what people use today, and beside pg_recvlogical, which writes the
// same stream to /dev/null and so shows what the server can send. It starts a Postgres of Debian's and a real Kafka of its
// own, loads an outbox, and lets all programs read the very same WAL in alternation.
//
// A benchmark is made of parts (Parts), which can be run one by one: each replaces its own section of a Report and leaves
// the others. A part lists workloads; a workload is done by programs; each run of one gives figures, of which median,
// smallest and largest are kept.
//
// Absolute figures move with the machine and its neighbours; ratios of one run are what counts. Each run tells how much CPU
// the rest of the machine used meanwhile, and one that was disturbed is repeated.
//
// It reads /proc, so it runs on Linux only. One benchmark at a time: it wants the machine for itself.
package bench
