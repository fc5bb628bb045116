// Package workload writes outbox events as a busy application would, from several connections at once and through
// crashes of the server, and audits the topics against the tables afterwards.
//
// The outbox carries the oracle's sequence number in a column that the relay ignores. The number of a key is taken under
// the lock of the key's row, in the transaction of the event, so that it rises in commit order. What was committed is
// not remembered: the tables will tell.
package workload
