package main

import (
	"sync"
	"time"

	"github.com/walrelay/walrelay/internal/audit"
)

// ledger is what the shop has written and the consumer has seen. Both use it at once.
type ledger struct {
	mu        sync.Mutex
	rows      []audit.Row
	missing   map[string]bool // by id: false once the consumer has seen it
	open      int             // how many are missing
	latencies []time.Duration // from commit to consumer
}

func newLedger() *ledger { return &ledger{missing: map[string]bool{}} }

// expect takes a row that is about to be committed: the consumer may be faster than the answer to the commit.
func (l *ledger) expect(row audit.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, row)
	l.missing[row.ID] = true
	l.open++
}

// arrival is what an event is to the consumer.
type arrival int

const (
	foreign  arrival = iota // not ours: an earlier run may have left events
	first                   // seen for the first time
	repeated                // seen before
)

// arrived takes an event that the consumer has seen.
func (l *ledger) arrived(id string, latency time.Duration) arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing, ours := l.missing[id]
	switch {
	case !ours:
		return foreign
	case !missing:
		return repeated
	}
	l.missing[id] = false
	l.open--
	l.latencies = append(l.latencies, latency)
	return first
}

// complete tells whether the consumer has seen all.
func (l *ledger) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open == 0
}
