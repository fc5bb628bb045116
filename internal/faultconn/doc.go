// Package faultconn breaks network connections on purpose, under the control of a test: it cuts them at once or after an
// exact number of bytes, stalls them, delays them, and swallows answers.
//
// Dialer is for code that takes a dial function. Proxy stands before a server for programs that take only an address.
// Both are steered by the embedded Faults while connections are in use. "Read" always means from the server to the
// client, "write" from the client to the server.
//
// It does not reorder or corrupt bytes: TCP does not either.
//
// All methods may be called by several goroutines. A Dialer starts none; a Proxy owns its goroutines, and Close waits for
// them.
package faultconn
