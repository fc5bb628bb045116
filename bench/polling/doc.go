// Polling is the relay of most courses on the outbox, to compare with: it selects unpublished rows FOR UPDATE SKIP LOCKED,
// publishes them with kafka-go's Writer, and marks them published in the same transaction. A crash between the two
// publishes again. It is configured by flags, runs until it is killed, and is part of the benchmark only.
package main
