// Package router turns outbox rows into Kafka records. It is being written.
package router
