// Package process starts the child processes of the test harness (postgres, java, the relay itself) so that a test can
// kill, freeze and restart them by process id, and so that none outlives a crashed test: on Linux the kernel kills the
// child when its parent dies.
//
// It knows nothing of what the program does; when a server is ready is the caller's question.
//
// A Process may be used by several goroutines. It owns one goroutine, which waits for the child and ends with it.
package process
