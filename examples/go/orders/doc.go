// Command orders is the order service of the example: net/http and pgx. Each request changes an order and writes the event of it
// in one transaction, with package outbox.
package main
