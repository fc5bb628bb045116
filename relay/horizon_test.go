package relay

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// server is a Postgres as far as a horizon is about it: transactions get ids when they write and end when they want.
type server struct {
	next    uint64
	running map[uint64]bool
	commits []commit
	log     lsn.End
	clock   int64
}

type commit struct {
	xid   uint64
	start lsn.Start
	time  int64
}

func (s *server) oldest() uint64 {
	oldest := s.next
	for xid := range s.running {
		oldest = min(oldest, xid)
	}
	return oldest
}

// Whatever the transactions do and whenever the relay looks: what is below the horizon is in Kafka, and what is not below
// was not committed before its time.
func TestHorizonsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := server{next: 10, running: map[uint64]bool{}, log: 100, clock: 1}
		var h *horizons
		look := func() replication.Moment {
			m := replication.Moment{Oldest: s.oldest(), Next: s.next, Time: time.UnixMicro(s.clock)}
			s.log += 10 // others write between the snapshot and the question for the log's end
			m.End = s.log
			return m
		}
		var before checkpoint.Horizon
		saved := lsn.End(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			s.clock++
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1: // a transaction writes first
				s.running[s.next] = true
				s.next++
			case 2, 3: // one ends
				for xid := range s.running {
					if rapid.Bool().Draw(t, "this one") {
						s.log += 10
						s.commits = append(s.commits, commit{xid, lsn.Start(s.log - 5), s.clock})
						delete(s.running, xid)
						break
					}
				}
			case 4: // the relay looks, before it saves
				if h == nil {
					h = newHorizons(checkpoint.Horizon{}, look())
				} else {
					h.add(look())
				}
			case 5: // Kafka acknowledges up to somewhere
				saved = max(saved, lsn.End(rapid.Uint64Range(uint64(saved), uint64(s.log)).Draw(t, "saved")))
			}
			if h == nil {
				continue
			}
			got := h.at(saved)
			if got.XID < before.XID {
				t.Fatalf("the horizon goes back from %+v to %+v", before, got)
			}
			before = got
			if got.XID == 0 {
				continue
			}
			for xid := range s.running {
				if xid < got.XID {
					t.Fatalf("transaction %d runs, and the horizon is %+v", xid, got)
				}
			}
			for _, c := range s.commits {
				if c.xid < got.XID && (!c.start.CoveredBy(saved) || !c.start.CoveredBy(got.LSN)) {
					t.Fatalf("transaction %d is not saved at %v, and the horizon is %+v", c.xid, saved, got)
				}
				if c.xid >= got.XID && c.time < got.Time.UnixMicro() {
					t.Fatalf("transaction %d was committed at %d, before the horizon's time: %+v", c.xid, c.time, got)
				}
			}
		}
		if h != nil && len(h.glances) > maxGlances {
			t.Fatalf("%d glances are kept", len(h.glances))
		}
	})
}

// It gets along, also when the position was behind for long, and never holds on to an unbounded past.
func TestHorizonsAdvance(t *testing.T) {
	t.Parallel()
	at := func(n int) replication.Moment {
		return replication.Moment{Oldest: uint64(n), Next: uint64(n), Time: time.UnixMicro(int64(n)), End: lsn.End(10 * n)}
	}
	h := newHorizons(checkpoint.Horizon{}, at(1))
	if got := h.at(5); got != (checkpoint.Horizon{}) {
		t.Errorf("nothing is saved, and the horizon is %+v", got)
	}
	for n := 2; n <= 1000; n++ {
		h.add(at(n))
	}
	got := h.at(10_000)
	if want := (checkpoint.Horizon{XID: 1000, LSN: 10_000, Time: time.UnixMicro(1000)}); got != want || len(h.glances) != 1 {
		t.Errorf("got %+v with %d glances, want %+v", got, len(h.glances), want)
	}
	h.add(replication.Moment{Oldest: 1000, Next: 2000, Time: time.UnixMicro(3000), End: 30_000}) // a long transaction
	if got := h.at(30_000); got.XID != 1000 || got.LSN != 30_000 || got.Time != time.UnixMicro(1000) {
		t.Errorf("while a long transaction runs: %+v", got)
	}
}
