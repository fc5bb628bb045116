// Package kafkatest runs Kafka for tests, the demo and the benchmarks: real Apache Kafka 4.3 on loopback, one node or
// three, whose nodes can be killed, stopped, frozen and restarted; and kfake, a broker inside the process, where Java is
// missing or a second of start is too long.
//
// Real Kafka needs Java 17 and Maven, which fetches the jars once (45 MB). Tests are skipped loudly where they are missing,
// or fail with WALRELAY_REQUIRE_KAFKA=1. kfake replicates nothing and takes every producer epoch for known cluster-wide, so
// tests of fencing and of lost brokers need the real one.
//
// ReadAll reads back what a cluster holds, for audits.
//
// A Cluster may be used by several goroutines.
package kafkatest
