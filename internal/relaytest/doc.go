// Package relaytest runs the real binary as a process of its own, for the end-to-end tests and the chaos run: builds it,
// starts it with a clean environment, reads what it says and asks its pages.
//
// Whoever launches a process ends it. A Process is used by one goroutine; what ends it (Kill, Signal) may be called by
// others.
package relaytest
