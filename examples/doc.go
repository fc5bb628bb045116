// Command examples runs the example applications in its subfolders on a real Postgres and a real Kafka. Each is an order service,
// walrelay, and a consumer that books every event. While clients create and pay orders, it kills the three with SIGKILL, again
// and again; then every order must have its two events, and each event its effect, once and in order.
//
// The last line says how many passed: examples: N passed, N failed[, N skipped]. An example is skipped where its language is
// not installed, and fails then where CI is set.
package main
