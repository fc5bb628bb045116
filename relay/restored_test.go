package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// restored is a server that is replaced by an older copy of itself, as from a snapshot of its volume: the same system and
// timeline, and positions that come a second time with other events.
type restored struct {
	*world
	gate   gate
	relay  *running
	server *pgtest.Server
	dir    string // the copy
}

// copied copies a server that has a relay, when everything is published and saved. then comes when the server runs again, and
// the relay does not see it yet.
func copied(t *testing.T, then func(*restored)) *restored {
	t.Helper()
	x := &restored{server: pgtest.Start(t, pgtest.Options{}), dir: pgtest.TempDir(t)}
	x.world = newWorld(t, x.server)
	x.relay = x.start(x.gate.before(x.config()))
	x.relay.state(Streaming)
	x.insert(10)
	x.delivered()
	eventually(t, "everything is saved", func() bool { return !x.relay.progress.due.Load() && x.relay.Status().InFlight == 0 })
	x.gate.closed.Store(true)
	if err := x.server.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	if err := x.server.CopyData(x.dir); err != nil {
		t.Fatal(err)
	}
	if err := x.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.reconnect()
	then(x)
	x.gate.closed.Store(false)
	x.relay.follows(2)
	return x
}

// filler is log without events.
func (x *restored) filler() {
	x.t.Helper()
	x.exec("select pg_logical_emit_message(true, 'filler', repeat('x', 2000000))")
}

// restore puts the copy in the server's place. before comes when the copy runs, and the relay does not see it yet.
func (x *restored) restore(before func()) {
	x.t.Helper()
	x.gate.closed.Store(true)
	if err := x.server.Kill(); err != nil {
		x.t.Fatal(err)
	}
	again := pgtest.Start(x.t, pgtest.Options{Dir: x.dir})
	x.moveTo(strings.Replace(x.url, fmt.Sprint(x.server.Port()), fmt.Sprint(again.Port()), 1))
	before()
	x.gate.server.Store(again)
	x.gate.closed.Store(false)
}

// twice checks that the events from an id on are in Kafka twice: those of the server, and those of its copy. It returns how
// many of them have the same position both times.
func (x *restored) twice(first int) (same int) {
	x.t.Helper()
	for id := first; id < x.next; id++ {
		found := x.identities(id)
		if len(found) != 2 {
			x.t.Fatalf("event %d is there %d times, want 2", id, len(found))
		}
		var events [2]lsn.Identity
		for i, text := range found {
			event, err := lsn.ParseIdentity(text)
			if err != nil {
				x.t.Fatal(err)
			}
			events[i] = event
		}
		if events[0] == events[1] {
			x.t.Errorf("event %d is the same one twice: %v", id, events[0])
		}
		if events[0].Commit == events[1].Commit {
			same++
		}
	}
	x.t.Logf("%d of %d events have the same id and position as another one", same, x.next-first)
	return same
}

// Under a running relay a copy takes the server's place, and its log passes what the relay has read. Events at positions
// that the relay knows are other events, and none may be left out.
func TestRestoredCopyUnderARunningRelay(t *testing.T) {
	t.Parallel()
	for name, published := range map[string]bool{"nothing was published since": false, "events were published since": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := copied(t, func(*restored) {})
			first := x.next
			if published {
				for range 30 {
					x.insert(1)
				}
				x.delivered()
			}
			x.filler()
			x.caughtUp(x.relay)
			x.restore(func() {
				x.next = first
				for range 30 {
					x.insert(1)
				}
				x.filler()
				x.filler()
			})
			want := x.next
			if published {
				want += 30
			}
			eventually(t, fmt.Sprintf("%d records", want), func() bool { return len(x.records()) == want })
			if published {
				x.twice(first)
			}
		})
	}
}

// The copy hands out ids and positions again that stand in Kafka already, with other events.
func TestRestoredCopyAfterAStop(t *testing.T) {
	t.Parallel()
	var first int
	write := func(x *restored) { // the same in the server and in its copy, to the byte
		first = x.next
		for range 30 {
			x.insert(1)
		}
	}
	x := copied(t, write)
	x.delivered()
	if err := x.relay.end(); err != nil {
		t.Fatal(err)
	}
	x.restore(func() {
		x.next = first
		write(x)
	})
	next := x.start(x.gate.before(x.config()))
	eventually(t, "the events of both", func() bool { return len(x.records()) == x.next+30 })
	if same := x.twice(first); same == 0 {
		t.Error("no event has a position that came before, so this proves nothing")
	}
	eventually(t, "the events of the server before are reported", func() bool {
		return strings.Contains(next.said(), "Kafka has events of transactions that Postgres has lost")
	})
}
