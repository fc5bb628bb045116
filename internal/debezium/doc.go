// Package debezium runs the Debezium connector that users have today, for the take-over test and the benchmarks: a real Kafka
// Connect worker in standalone mode with one connector and its Outbox Event Router. It is never linked into the product.
//
// It needs Java 17 and Maven, which fetches the jars once (60 MB).
package debezium
