package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/lsn"
)

// run plays a script. Words: B begins; +n adds n messages; C30 commits with end 30; K30 is a keepalive; 2:1
// acknowledges one message of transaction 2.
func run(w *Window, script string) {
	for _, word := range strings.Fields(script) {
		var a, b int
		switch {
		case word == "B":
			w.Begin(int64(100 * w.next))
		case scanWord(word, "+%d", &a):
			w.Add(int32(a))
		case scanWord(word, "C%d", &a):
			w.Commit(lsn.End(a))
		case scanWord(word, "K%d", &a):
			w.Keepalive(lsn.End(a))
		case scanWord(word, "%d:%d", &a, &b):
			w.Acked(uint64(a), int32(b))
		default:
			panic("unknown word " + word)
		}
	}
}

func scanWord(word, format string, args ...any) bool {
	n, err := fmt.Sscanf(word, format, args...)
	return err == nil && n == len(args)
}

// draw shows the confirmed position and the ring slot by slot: number(acked/added)end, a point for a free slot.
func draw(w *Window) string {
	slots := slices.Repeat([]string{"."}, len(w.ring))
	for tx := w.first; tx < w.next; tx++ {
		t := w.at(tx)
		end := "open"
		if t.end > 0 {
			end = fmt.Sprint(uint64(t.end))
		}
		slots[tx%uint64(len(w.ring))] = fmt.Sprintf("%d(%d/%d)%s", tx, t.acked, t.added, end)
	}
	return fmt.Sprintf("%d [%s]", uint64(w.confirmed), strings.Join(slots, " "))
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, want string }{
		{"nothing known", "", "5 [. . . .]"},
		{"open", "B +2", "5 [. 1(0/2)open . .]"},
		{"closed, waits", "B +2 C10", "5 [. 1(0/2)10 . .]"},
		{"partly acknowledged", "B +2 C10 1:1", "5 [. 1(1/2)10 . .]"},
		{"acknowledged", "B +2 C10 1:1 1:1", "10 [. . . .]"},
		{"acknowledged before its commit", "B +2 1:2", "5 [. 1(2/2)open . .]"},
		{"commit behind all acknowledgements", "B +2 1:2 C10", "10 [. . . .]"},
		{"more messages behind acknowledgements", "B +1 1:1 +1 C10", "5 [. 1(1/2)10 . .]"},

		{"out of order", "B +1 C10 B +1 C20 B +1 C30 3:1 2:1", "5 [. 1(0/1)10 2(1/1)20 3(1/1)30]"},
		{"the first frees all", "B +1 C10 B +1 C20 B +1 C30 3:1 2:1 1:1", "30 [. . . .]"},
		{"up to the next gap", "B +1 C10 B +1 C20 B +1 C30 3:1 1:1", "10 [. . 2(0/1)20 3(1/1)30]"},
		{"up to the open one", "B +1 C10 B +1 2:1 1:1", "10 [. . 2(1/1)open .]"},

		{"without messages", "B C10", "10 [. . . .]"},
		{"without messages, behind others", "B +1 C10 B C20 B C30", "5 [. 1(0/1)30 . .]"},
		{"confirmed with the one before", "B +1 C10 B C20 B +1 C30 1:1", "20 [. . 2(0/1)30 .]"},
		{"its number is given out again", "B C10 B C20 B +1 C30", "20 [. 1(0/1)30 . .]"},
		{"without messages, before is acknowledged but not first",
			"B +1 C10 B +1 C20 2:1 B C30", "5 [. 1(0/1)10 2(1/1)30 .]"},

		{"ring goes round", "B +1 C10 B +1 C20 1:1 2:1 B +1 C30 B +1 C40 B +1 C50",
			"20 [4(0/1)40 5(0/1)50 . 3(0/1)30]"},
		{"ring grows while it goes round", "B +1 C10 B +1 C20 1:1 2:1 B +1 C30 B +1 C40 B +1 C50 B +1 C60 B",
			"20 [. . . 3(0/1)30 4(0/1)40 5(0/1)50 6(0/1)60 7(0/0)open]"},

		{"keepalive while idle", "K30", "30 [. . . .]"},
		{"keepalive below", "B C10 K8", "10 [. . . .]"},
		{"keepalive while a message is in flight", "B +1 C10 K30", "5 [. 1(0/1)10 . .]"},
		{"it is not remembered", "B +1 C10 K30 1:1", "10 [. . . .]"},
		{"keepalive between BEGIN and COMMIT", "B K30", "5 [. 1(0/0)open . .]"},
		{"keepalive between acknowledged rows", "B +1 1:1 K30", "5 [. 1(1/1)open . .]"},
		{"keepalive when all is acknowledged", "B +1 C10 1:1 K30", "30 [. . . .]"},
	} {
		w := NewWindow(5, 100, 100)
		run(w, test.script)
		if got := draw(w); got != test.want {
			t.Errorf("%s: %s\n got %s\nwant %s", test.name, test.script, got, test.want)
		}
	}
}

func TestWindowFull(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		want         bool
	}{
		{"empty", "", false},
		{"below both caps", "B +9 C10 B", false},
		{"messages", "B +9 C10 B +1", true},
		{"one transaction at the cap", "B +10 C10", true},
		{"acknowledged, but not first", "B +1 C10 B +9 C20 2:9", true},
		{"first acknowledged", "B +1 C10 B +9 C20 1:1 2:1", false},
		{"open transaction alone, ten times the cap", "B +100", false},
		{"open transaction behind another", "B +1 C10 B +100", true},
		{"open transaction alone again", "B +1 C10 B +100 1:1", false},
		{"transactions", "B +1 C10 B +1 C20 B +1 C30", true},
		{"transactions, the last one open", "B +1 C10 B +1 C20 B", true},
		{"transactions without messages do not count", "B +1 C10 B C20 B C30 B C40 B", false},
	} {
		w := NewWindow(5, 10, 3)
		run(w, test.script)
		if got := w.Full(); got != test.want {
			t.Errorf("%s: %s: full %t", test.name, test.script, got)
		}
	}
}

func TestWindowInFlightAndOldest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script       string
		messages     int64
		transactions int
		oldest       int64 // 100 times the number; 0 for none
	}{
		{"", 0, 0, 0},
		{"B", 0, 1, 100},
		{"B +3 C10 B +2", 5, 2, 100},
		{"B +3 C10 B +2 2:2", 3, 2, 100},
		{"B +3 C10 B +2 1:3", 2, 1, 200},
		{"B +3 C10 B +2 1:3 2:2", 0, 1, 200},
		{"B +3 C10 B +2 1:3 2:2 C20", 0, 0, 0},
		{"B C10 B C20", 0, 0, 0},
	} {
		w := NewWindow(0, 100, 100)
		run(w, test.script)
		messages, transactions := w.InFlight()
		oldest, ok := w.Oldest()
		if messages != test.messages || transactions != test.transactions || oldest != test.oldest || ok != (oldest > 0) {
			t.Errorf("%q: %d messages, %d transactions, oldest %d %t; want %+v",
				test.script, messages, transactions, oldest, ok, test)
		}
	}
}

// A caller that goes against the contract would sooner or later confirm too much.
func TestWindowMisusePanics(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, last, want string }{
		{"begin in a transaction", "B", "B", "begin while transaction 1 is open"},
		{"message outside", "", "+1", "transaction open: false"},
		{"message behind the commit", "B +1 C10", "+1", "transaction open: false"},
		{"no message added", "B", "+0", "0 messages added"},
		{"commit outside", "", "C10", "no transaction is open"},
		{"end not above the one before", "B +1 C10 B", "C10", "ends at 0/A, not above 0/A"},
		{"end below a keepalive", "K30 B", "C20", "not above 0/1E"},
		{"end not above the start position", "B", "C5", "not above 0/5"},
		{"end below one that was merged", "B +1 C10 B C20 B", "C15", "not above 0/14"},
		{"acknowledged twice", "B +1 C10 1:1", "1:1", "transaction 1, known are 2 up to 2"},
		{"not begun", "B +1", "2:1", "transaction 2, known are 1 up to 2"},
		{"number zero", "B +1", "0:1", "transaction 0"},
		{"more than added", "B +2 C10 1:1", "1:2", "2 messages of transaction 1 acknowledged, 1 of 2 were before"},
		{"none acknowledged", "B +2", "1:0", "0 messages of transaction 1"},
		{"negative", "B +2 1:1", "1:-1", "-1 messages of transaction 1"},
		{"number of one without messages", "B C10", "1:1", "transaction 1"},
	} {
		w := NewWindow(5, 100, 100)
		run(w, test.script)
		before := draw(w)
		got := func() (panicked any) {
			defer func() { panicked = recover() }()
			run(w, test.last)
			return nil
		}()
		if text := fmt.Sprint(got); !strings.HasPrefix(text, "checkpoint: ") || !strings.Contains(text, test.want) {
			t.Errorf("%s: %v, want %s", test.name, got, test.want)
		}
		if after := draw(w); after != before {
			t.Errorf("%s: changed %s to %s", test.name, before, after)
		}
	}
}

// naive is the window as the definition has it: all transactions in a list, and each answer looked up anew.
type naive struct {
	start     lsn.End
	keepalive lsn.End // the last one that counted
	all       []naiveTransaction
}

type naiveTransaction struct {
	tx, added, acked int64
	end              lsn.End // 0 while open
}

func (n *naive) open() bool { return len(n.all) > 0 && n.all[len(n.all)-1].end == 0 }

// prefix is how many transactions, from the first on, are closed and acknowledged.
func (n *naive) prefix() int {
	i := slices.IndexFunc(n.all, func(t naiveTransaction) bool { return t.end == 0 || t.acked < t.added })
	if i < 0 {
		return len(n.all)
	}
	return i
}

func (n *naive) confirmed() lsn.End {
	end := max(n.start, n.keepalive)
	if i := n.prefix(); i > 0 {
		end = max(end, n.all[i-1].end)
	}
	return end
}

// room counts what takes room: what is beyond the prefix, without closed transactions that have no messages.
func (n *naive) room() (messages, unacked int64, transactions int) {
	for _, t := range n.all[n.prefix():] {
		if t.end == 0 || t.added > 0 {
			transactions++
		}
		messages += t.added
		unacked += t.added - t.acked
	}
	return messages, unacked, transactions
}

func (n *naive) full(maxMessages int64, maxTransactions int) bool {
	messages, _, transactions := n.room()
	onlyOpen := transactions == 1 && n.open()
	return transactions > 0 && !onlyOpen && (messages >= maxMessages || transactions >= maxTransactions)
}

// step is one call; pick and n choose among what is possible at that point.
type step struct {
	verb    int
	pick, n int
}

func drawSteps(t *rapid.T) []step {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			verb: rapid.IntRange(0, 9).Draw(t, "verb"), pick: rapid.IntRange(0, 99).Draw(t, "pick"),
			n: rapid.IntRange(1, 5).Draw(t, "n"),
		}
	})
	return rapid.SliceOfN(one, 1000, 1500).Draw(t, "steps")
}

// At least 100 runs of 1000 steps.
func TestWindowAgainstNaiveList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const maxMessages, maxTransactions = 40, 15
		start := lsn.End(rapid.IntRange(0, 50).Draw(t, "start"))
		model := &naive{start: start}
		w := NewWindow(start, maxMessages, maxTransactions)
		position := start // of the server's WAL
		for _, s := range drawSteps(t) {
			before := w.Confirmed()
			position += lsn.End(s.n - 1)
			model.take(w, s, position)
			if got, want := w.Confirmed(), model.confirmed(); got != want || got < before {
				t.Fatalf("confirmed %d, want %d, was %d: %s", got, want, before, draw(w))
			}
			if got, want := w.Full(), model.full(maxMessages, maxTransactions); got != want {
				t.Fatalf("full %t: %s", got, draw(w))
			}
			_, unacked, transactions := model.room()
			if m, n := w.InFlight(); m != unacked || n != transactions {
				t.Fatalf("in flight %d, %d, want %d, %d: %s", m, n, unacked, transactions, draw(w))
			}
			if oldest, ok := w.Oldest(); ok != (transactions > 0) || ok && oldest != model.all[model.prefix()].tx {
				t.Fatalf("oldest %d %t: %s", oldest, ok, draw(w))
			}
			if err := invariants(w); err != "" {
				t.Fatalf("%s: %s", err, draw(w))
			}
		}
	})
}

// take does one step in both; a step that is not possible now is left out.
func (n *naive) take(w *Window, s step, position lsn.End) {
	last := len(n.all) - 1
	switch {
	case s.verb <= 4: // acknowledge some messages of one of the transactions that wait
		var waiting []int
		for i := n.prefix(); i < len(n.all); i++ {
			if n.all[i].acked < n.all[i].added {
				waiting = append(waiting, i)
			}
		}
		if len(waiting) == 0 {
			return
		}
		t := &n.all[waiting[s.pick%len(waiting)]]
		count := min(int64(s.n), t.added-t.acked)
		t.acked += count
		w.Acked(uint64(t.tx), int32(count))
	case s.verb == 5:
		if !n.open() && n.confirmed() < position && n.prefix() == len(n.all) {
			n.keepalive = position
		}
		w.Keepalive(position)
	case !n.open():
		tx := int64(w.Begin(int64(w.next)))
		n.all = append(n.all, naiveTransaction{tx: tx})
	case s.verb == 6 && position > w.last:
		n.all[last].end = position
		w.Commit(position)
	default:
		n.all[last].added += int64(s.n)
		w.Add(int32(s.n))
	}
}

// invariants checks what stands at the top of window.go.
func invariants(w *Window) string {
	end, added, acked := w.confirmed, int64(0), int64(0)
	for tx := w.first; tx < w.next; tx++ {
		t := w.at(tx)
		open := w.open && tx == w.next-1
		switch {
		case open != (t.end == 0):
			return "end of an open transaction, or none of a closed one"
		case !open && t.end <= end:
			return "ends do not rise"
		case t.acked < 0 || t.acked > t.added:
			return "acked outside 0..added"
		case !open && t.added == 0:
			return "a closed transaction without messages takes room"
		case !open && tx == w.first && t.acked == t.added:
			return "the first one should be confirmed"
		}
		end, added, acked = t.end, added+t.added, acked+t.acked
	}
	switch {
	case !w.open && end > w.last || w.confirmed > w.last:
		return "last is not the highest end"
	case added != w.added || acked != w.acked:
		return "sums"
	case w.first == w.next && (w.open || w.confirmed != w.last):
		return "empty, but not all is confirmed"
	}
	return ""
}

// loop keeps a window of a number of transactions in flight, acknowledged in an order that frees them in pairs.
type loop struct {
	w   *Window
	end lsn.End
}

func newLoop(inFlight int) *loop {
	l := &loop{w: NewWindow(0, 1_000_000, 200_000)}
	for range inFlight {
		l.transaction()
	}
	return l
}

func (l *loop) transaction() uint64 {
	tx := l.w.Begin(0)
	l.w.Add(1)
	l.end += 48
	l.w.Commit(l.end)
	return tx
}

func (l *loop) turn(inFlight uint64) {
	l.transaction()
	tx := l.transaction() - inFlight
	l.w.Acked(tx, 1)
	l.w.Acked(tx-1, 1)
}

func TestWindowDoesNotAllocate(t *testing.T) {
	l := newLoop(1000)
	if n := testing.AllocsPerRun(1000, func() { l.turn(1000) }); n != 0 {
		t.Errorf("%v allocations for two transactions", n)
	}
}

// The ring keeps the size that the caps ask for, however many transactions pass.
func TestWindowMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const maxTransactions = 100
	w := NewWindow(0, 1_000_000, maxTransactions)
	end := lsn.End(0)
	for range 10 {
		for !w.Full() {
			w.Begin(0)
			w.Add(1)
			end += 48
			w.Commit(end)
			w.Begin(0) // and one without messages
			end += 48
			w.Commit(end)
		}
		for w.first < w.next {
			w.Acked(w.first, 1)
		}
	}
	if len(w.ring) != 128 {
		t.Errorf("ring of %d for a cap of %d", len(w.ring), maxTransactions)
	}
}

func BenchmarkWindow(b *testing.B) {
	for _, inFlight := range []int{2, 1000, 100_000} {
		b.Run(fmt.Sprintf("in flight %d", inFlight), func(b *testing.B) {
			l := newLoop(inFlight)
			b.ReportAllocs()
			for b.Loop() { // two transactions of one message
				l.turn(uint64(inFlight))
			}
		})
	}
}
