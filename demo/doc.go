// Command demo shows walrelay at work on a machine with nothing but Go: a small shop writes orders and their events to a
// real PostgreSQL, the relay brings the events to a Kafka broker inside this process, and a consumer prints them.
//
//	go run ./demo                         until Ctrl-C
//	go run ./demo -kill                   the relay is killed and started again now and then
//	go run ./demo -events 200 -json       bounded; the last line of standard output is JSON
//	go run ./demo -postgres URL -kafka HOST:PORT
//
// At the end it compares what was committed with what the topics hold. It exits with 1 when an event is lost, duplicated
// or out of order.
//
// The relay is the real one. It runs as a child process, which is this program again, so that it can be killed as the
// operating system kills. The shop runs in the main goroutine, the consumer in another one.
package main
