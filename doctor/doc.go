// Package doctor looks over a configuration, its Postgres and its Kafka, check by check in the order in which things must be
// right, and says for each finding what mends it: the exact statement, setting or command, in the words of the service
// where the database runs.
//
// It changes nothing, but for the round trip of a test event, which must be asked for.
//
// Concurrency: Examine is one goroutine with connections of its own.
package doctor
