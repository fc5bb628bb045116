package relay

import (
	"fmt"

	"github.com/walrelay/walrelay/lsn"
)

// resume knows what of the stream was already taken, so that a new connection, which begins again at the
// slot's position, repeats nothing: whole transactions below the received end are dropped, and one that was
// half received goes on behind its last event.
//
// done <= the ordinal of the event under way, once the transaction is ours.
type resume struct {
	received lsn.End   // end of the last whole transaction taken
	open     bool      // a transaction is under way, also across a reconnect
	half     bool      // it was begun on an earlier connection and has not come again yet
	skip     bool      // the transaction now on the wire was taken before
	start    lsn.Start // of the transaction under way
	done     uint32    // its last event that was taken
	tx       uint64    // its number in the window
}

// reconnected says that a new stream begins.
func (r *resume) reconnected() { r.half, r.skip = r.open, false }

// begin tells whether the transaction must not be opened in the window again.
func (r *resume) begin(start lsn.Start) (again bool, err error) {
	switch {
	case start.CoveredBy(r.received):
		r.skip = true
		return true, nil
	case !r.open:
		r.open, r.start, r.done = true, start, 0
		return false, nil
	case r.half && r.start == start:
		r.half = false
		return true, nil
	}
	return false, fmt.Errorf("transaction %v was half received, and the server goes on with %v: %w", r.start, start, errHistory)
}

// covered says that everything before end was received, and nothing of ours is left open before it.
func (r *resume) covered(end lsn.End) { r.received = max(r.received, end) }

// has tells whether the event was taken before.
func (r *resume) has(ordinal uint32) bool { return r.skip || ordinal <= r.done }

// commit tells whether the transaction that ends is to be closed in the window.
func (r *resume) commit(end lsn.End) bool {
	if r.skip {
		r.skip = false
		return false
	}
	r.received, r.open = end, false
	return true
}
