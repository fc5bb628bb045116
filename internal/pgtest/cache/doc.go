// Package cache keeps what the test harness downloads or prepares once per machine: server binaries, jars, templates.
//
// Several processes may use it at once: an entry is built in a temporary folder under a file lock and appears by rename,
// so it is complete or absent. Entries are never changed afterwards and never expire; delete the folder to start anew.
package cache
