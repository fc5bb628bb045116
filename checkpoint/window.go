package checkpoint

import (
	"fmt"

	"github.com/walrelay/walrelay/lsn"
)

// Window holds the transactions from the first unconfirmed one to the one being read. It is fed in stream order
// (Begin, Add, Commit) and acknowledged in any order (Acked).
//
// Transactions have numbers that rise by one; first is the oldest in the window, next the one that Begin gives
// out. Always:
//
//	first <= number < next
//	0 <= acked <= added                                  of each transaction
//	confirmed < end(first) < ... < end(next-1) <= last   of the closed ones; only next-1 may be open
//	acked(first) < added(first), or first is open        else it would be confirmed
//	0 < added                                            of each closed one, see Commit
//
// So no transaction that ends at or below confirmed has a message that is not acknowledged, and nothing but
// confirmed may be told to Postgres.
type Window struct {
	maxMessages     int64
	maxTransactions int

	confirmed lsn.End
	time      int64   // of the commit that the confirmed position ends with, or of an earlier one
	last      lsn.End // highest end that was counted, of a commit or a keepalive

	ring        []transaction // the one with number n at n modulo the length, which is a power of two
	first, next uint64
	open        bool  // next-1 has not been committed yet
	added       int64 // sums over the window
	acked       int64
}

// transaction takes 32 bytes.
type transaction struct {
	time  int64   // of the commit, µs since 1970
	end   lsn.End // 0 while it is open
	added int64   // messages handed to the producer
	acked int64   // and acknowledged
}

// smallestRing is doubled as needed and never shrinks. A caller that minds Full keeps it within twice the cap on
// transactions, 32 bytes each.
const smallestRing = 4

// NewWindow returns an empty window. Everything up to confirmed is known to be in Kafka; 0 if nothing is known.
// Full tells when the caps on messages and transactions beyond the confirmed position are reached.
func NewWindow(confirmed lsn.End, messages, transactions int) *Window {
	return &Window{
		maxMessages: int64(messages), maxTransactions: transactions,
		confirmed: confirmed, last: confirmed,
		ring: make([]transaction, smallestRing), first: 1, next: 1,
	}
}

// Begin opens the next transaction and returns its number. time is its commit time, in any unit; Oldest gives it
// back. Only one transaction may be open. One that was received in part stays open over a reconnect to the same
// history and is continued, not begun again.
func (w *Window) Begin(time int64) (tx uint64) {
	if w.open {
		panic(fmt.Sprintf("checkpoint: begin while transaction %d is open", w.next-1))
	}
	if w.next-w.first == uint64(len(w.ring)) {
		w.grow()
	}
	tx = w.next
	w.next++
	*w.at(tx) = transaction{time: time}
	w.open = true
	return tx
}

// Add counts n messages of the open transaction that the producer has taken. They must be added before they are
// acknowledged.
func (w *Window) Add(n int32) {
	if !w.open || n < 1 {
		panic(fmt.Sprintf("checkpoint: %d messages added, transaction open: %t", n, w.open))
	}
	w.at(w.next - 1).added += int64(n)
	w.added += int64(n)
}

// Commit closes the open transaction. end must be above every end so far: ends rise in stream order, and
// transactions that come again after a reconnect are the caller's to drop.
//
// A transaction without messages is confirmed together with the one before it. It takes no room (before version
// 15 Postgres sends every transaction of the database, nearly all of them empty), so its number is given out
// again.
func (w *Window) Commit(end lsn.End) {
	if !w.open {
		panic("checkpoint: commit while no transaction is open")
	}
	if end <= w.last {
		panic(fmt.Sprintf("checkpoint: commit ends at %v, not above %v", end, w.last))
	}
	w.open, w.last = false, end
	if w.at(w.next-1).added == 0 {
		w.next--
	}
	if w.first == w.next {
		w.confirmed = end
		return
	}
	w.at(w.next - 1).end = end
	w.advance()
}

// Acked counts n messages of a transaction, closed or open, as being in Kafka.
func (w *Window) Acked(tx uint64, n int32) {
	if tx < w.first || tx >= w.next {
		panic(fmt.Sprintf("checkpoint: acknowledgement of transaction %d, known are %d up to %d", tx, w.first, w.next))
	}
	t := w.at(tx)
	if n < 1 || int64(n) > t.added-t.acked {
		panic(fmt.Sprintf("checkpoint: %d messages of transaction %d acknowledged, %d of %d were before",
			n, tx, t.acked, t.added))
	}
	t.acked += int64(n)
	w.acked += int64(n)
	w.advance()
}

// Keepalive takes the position of a keepalive: Postgres has sent everything that commits before it. It counts
// only while the window is empty, for then all of that is in Kafka.
//
// Between two rows nothing says on which side of the open transaction's commit record the position lies, so it can
// never count. Behind the last commit it could, once all before it is acknowledged; but to remember it needs
// a proof for each case and gains little: the next keepalive of an idle stream comes soon. A position below
// what is confirmed is normal after a reconnect and is ignored too.
func (w *Window) Keepalive(end lsn.End) {
	if w.first == w.next && end > w.last {
		w.confirmed, w.last = end, end
	}
}

// Confirmed is the position that may be told to Postgres. It never goes down.
func (w *Window) Confirmed() lsn.End { return w.confirmed }

// ConfirmedTime is the commit time, as Begin was given it, of the last confirmed transaction that had messages; 0 before
// the first.
func (w *Window) ConfirmedTime() int64 { return w.time }

// Full tells that a cap is reached and nothing more should be handed to the producer before acknowledgements come
// in. It counts what lies beyond the confirmed position, acknowledged or not, since one stuck partition must not
// let the rest run away. It is false while the open transaction is alone in the window, for a transaction
// larger than the cap has to pass. Else a closed one is waiting for acknowledgements, which need no more reading.
func (w *Window) Full() bool {
	transactions := int(w.next - w.first)
	if transactions == 0 || transactions == 1 && w.open {
		return false
	}
	return w.added >= w.maxMessages || transactions >= w.maxTransactions
}

// InFlight is the number of messages that were added and not acknowledged, and of transactions that are not
// confirmed, an open one included.
func (w *Window) InFlight() (messages int64, transactions int) {
	return w.added - w.acked, int(w.next - w.first)
}

// Oldest is the commit time of the oldest transaction that is not confirmed, as Begin was given it; false if
// there is none.
func (w *Window) Oldest() (time int64, ok bool) {
	if w.first == w.next {
		return 0, false
	}
	return w.at(w.first).time, true
}

// advance confirms what is closed and acknowledged at the front.
func (w *Window) advance() {
	for w.first < w.next {
		t := w.at(w.first)
		if t.end == 0 || t.acked < t.added {
			return
		}
		w.confirmed, w.time = t.end, t.time
		w.added -= t.added
		w.acked -= t.acked
		w.first++
	}
}

func (w *Window) at(tx uint64) *transaction { return &w.ring[tx&uint64(len(w.ring)-1)] }

func (w *Window) grow() {
	ring := make([]transaction, 2*len(w.ring))
	for tx := w.first; tx < w.next; tx++ {
		ring[tx&uint64(len(ring)-1)] = *w.at(tx)
	}
	w.ring = ring
}
