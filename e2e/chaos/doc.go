// Command chaos runs walrelay on real PostgreSQL and real Apache Kafka while everything around it breaks, and audits the
// topics against the tables: nothing may be lost, out of order, or twice.
//
// A run is made of rounds, a round of cycles. A round has servers of its own; in each cycle one to three things happen at
// moments that the round's seed decides (schedule.go), and then the relay must catch up with the log. At the end of a
// round the writers stop, and the audit decides. What a seed cannot decide is how the machine interleaves it all.
//
// Rounds are added to a result file, so that a run can be interrupted and gone on with. The last line of output is one
// JSON object; the exit code is 1 when any of its counts is not zero, or a round did not come to its end.
package main
