// Package pgtest runs real PostgreSQL servers, versions 14 to 18, for tests and the demo. It needs neither an installed
// server nor a container: the binaries are downloaded once (about 15 MB a version) and cached.
//
// Launch is for programs; Start, Shared, Database and EachVersion are for tests, and WALRELAY_POSTGRES_VERSIONS ("14,17" or
// "all") says which versions these use. A server can be killed, stopped, frozen and started again on the same port with
// its data. It is our own child process, run by an unprivileged account when we are root (which postgres refuses), and on
// Linux it dies with us.
//
// Standby makes a physical standby of a server. Without Options.Secure there is no TLS and there are no passwords: every
// connection from loopback is trusted.
//
// A Server may be used by several goroutines; calls that start or end it wait for each other.
package pgtest
