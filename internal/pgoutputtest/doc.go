// Package pgoutputtest writes pgoutput frames, protocol version 1, for tests and benchmarks: the reverse of
// package decoder. It checks nothing, so that a test can also write what Postgres never would. Its functions
// may be called from any goroutine. It is not linked into the binary.
package pgoutputtest
