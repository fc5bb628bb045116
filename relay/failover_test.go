package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/workload"
	"github.com/walrelay/walrelay/replication"
)

// withFailoverSlots are those of the versions to test that have failover slots.
func withFailoverSlots() []string {
	return slices.DeleteFunc(pgtest.Versions(), func(version string) bool { return version < "17" })
}

// pair is a primary with a physical standby, and a world on the primary.
type pair struct {
	*world
	primary, standby *pgtest.Server
	both             string // URL of both servers, for whoever is to follow
}

// synchronized makes the primary's logical slots wait for the standby.
var synchronized = map[string]string{"synchronized_standby_slots": pgtest.StandbySlot}

func newPair(t *testing.T, version string, settings map[string]string, schema string) *pair {
	t.Helper()
	primary := pgtest.Start(t, pgtest.Options{Version: version, Settings: settings})
	standby := pgtest.StartStandby(t, primary)
	p := &pair{world: &world{t: t, brokers: kafkatest.Fake(t).ListenAddrs()}, primary: primary, standby: standby}
	p.moveTo(primary.URL("postgres"))
	p.exec(schema)
	p.both = fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable", primary.Port(), standby.Port())
	return p
}

// following is the configuration of a relay that follows the primary wherever it is.
func (p *pair) following() Config {
	cfg := p.config()
	cfg.Postgres.URL = p.both
	return cfg
}

// failoverSlot makes the slot one that goes along, whatever the server's settings ask for.
func (p *pair) failoverSlot() {
	p.t.Helper()
	cfg := p.following()
	_, err := replication.Setup(p.t.Context(), cfg.Postgres, replication.SetupOptions{
		Tables: cfg.withDefaults().TableNames(), Init: true, Failover: true, Check: cfg.withDefaults().Fits})
	if err != nil {
		p.t.Fatal(err)
	}
}

// synced waits until the slot would survive a promotion; write makes it move.
func (p *pair) synced(write func()) {
	p.t.Helper()
	name := p.slotName()
	eventually(p.t, "the slot is synchronised", func() bool {
		write()
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
		defer cancel()
		return p.standby.AwaitSlotSynced(ctx, p.primary, name) == nil
	})
}

// promote makes the standby the primary.
func (p *pair) promote() {
	p.t.Helper()
	if err := p.standby.Promote(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.moveTo(p.standby.URL("postgres"))
}

// gate lets a relay reach Postgres, or not, or another server at the same address.
type gate struct {
	closed atomic.Bool
	server atomic.Pointer[pgtest.Server]
}

func (g *gate) before(cfg Config) Config {
	cfg.Postgres.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if g.closed.Load() {
			return nil, errors.New("no network")
		}
		if s := g.server.Load(); s != nil {
			address = fmt.Sprintf("127.0.0.1:%d", s.Port())
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return cfg
}

// follows waits until the relay streams for the n-th time.
func (r *running) follows(n int) {
	r.t.Helper()
	eventually(r.t, "the relay streams again", func() bool { return strings.Count(r.said(), "relay is streaming") >= n })
}

// A failover slot goes along: the relay follows the promoted server under load, and nothing is lost, there twice, out of
// order, or in Kafka without being in the database.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, version := range withFailoverSlots() {
		for name, end := range map[string]func(*pair) error{
			"planned": func(p *pair) error { return p.primary.Stop(p.t.Context(), "fast") },
			"killed":  func(p *pair) error { return p.primary.Kill() },
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, version, synchronized, workload.SQL)
				r := p.start(p.following()) // makes a failover slot, as the server's setting says
				r.state(Streaming)
				load := workload.Start(t.Context(), p.both+"&target_session_attrs=read-write",
					workload.Options{Seed: 1, Writers: 3, Pause: 2 * time.Millisecond, Mix: workload.Basic})
				t.Cleanup(func() { _ = load.Finish() })
				p.synced(func() {})
				before := len(p.records())
				if err := end(p); err != nil {
					t.Fatal(err)
				}
				p.promote()
				eventually(t, "events of the new primary", func() bool { return len(p.records()) > before+200 })
				if err := load.Finish(); err != nil {
					t.Fatal(err)
				}
				p.caughtUp(r)
				report, err := workload.Audit(t.Context(), p.url, p.brokers)
				if err != nil {
					t.Fatal(err)
				}
				if report.Lost.Count+report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
					t.Error(report)
				}
				t.Log(report)
				eventually(t, "the row goes on on the new timeline", func() bool { return p.loadRow().Timeline == 2 })
			})
		}
	}
}

// identities are the events in Kafka with an id, in order of their position.
func (w *world) identities(id int) []string {
	var found []string
	for _, r := range w.records() {
		if header(r, "id") == fmt.Sprint(id) {
			found = append(found, header(r, "walrelay.lsn"))
		}
	}
	return found
}

// A standby that was behind loses transactions whose events are in Kafka, and then hands out their ids again. The new
// events are others, and none is left out; the old ones are named.
func TestFailoverLosesTheTail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead bool // the lost transactions lie beyond what the new primary has written when the relay comes
		late  bool // the first event of the new primary comes when the relay is past everything
	}{"beyond": {ahead: true}, "late": {late: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "18", nil, outboxSQL)
			p.failoverSlot()
			var gate gate
			r := p.start(gate.before(p.following()))
			r.state(Streaming)
			p.synced(func() { p.insert(1) })
			p.delivered()
			if err := p.standby.Stop(t.Context(), "fast"); err != nil {
				t.Fatal(err)
			}
			if c.ahead {
				p.exec("select pg_logical_emit_message(true, 'filler', repeat('x', 4000000))")
			}
			first, phantoms := p.next, []string(nil)
			for range lost {
				p.insert(1)
			}
			p.delivered()
			for id := first; id < p.next; id++ {
				phantoms = append(phantoms, p.identities(id)...)
			}
			gate.closed.Store(true)
			if err := p.primary.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := p.standby.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.promote()
			p.next = first
			if c.late {
				gate.closed.Store(false)
				r.follows(2)
				p.caughtUp(r)
			}
			for range 2 * lost {
				p.insert(1)
			}
			gate.closed.Store(false)
			eventually(t, "all events of the new primary", func() bool { return len(p.records()) == p.next+lost })
			for id := range p.next {
				if want := map[bool]int{true: 2, false: 1}[id >= first && id < first+lost]; len(p.identities(id)) != want {
					t.Errorf("event %d is there %d times, want %d", id, len(p.identities(id)), want)
				}
			}
			eventually(t, "the lost events are reported", func() bool {
				missing := slices.ContainsFunc(phantoms, func(id string) bool { return !strings.Contains(r.said(), id) })
				return len(phantoms) == lost && !missing
			})
		})
	}
}

// lost is how many transactions a failover loses.
const lost = 5

// A slot that does not go along is missing after the promotion. That is a gap: the relay stops with the remedy, and the
// remedy restores what was committed and not published.
func TestFailoverWithoutTheSlot(t *testing.T) {
	t.Parallel()
	for _, version := range slices.Compact([]string{slices.Min(pgtest.Versions()), slices.Max(pgtest.Versions())}) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, version, nil, outboxSQL)
			var gate gate
			r := p.start(gate.before(p.following()))
			r.state(Streaming)
			p.insert(10)
			p.delivered()
			p.caughtUp(r)
			gate.closed.Store(true)
			p.exec("select pg_terminate_backend(active_pid, 20000) from pg_replication_slots where active_pid is not null and slot_type = 'logical'")
			p.insert(15) // committed, and not in Kafka yet
			if err := p.standby.AwaitReplayed(t.Context(), p.primary); err != nil {
				t.Fatal(err)
			}
			if err := p.primary.Kill(); err != nil {
				t.Fatal(err)
			}
			gate.closed.Store(false)
			eventually(t, "the relay waits for a primary", func() bool { return strings.Contains(r.said(), "standby") })
			p.promote()
			p.insert(5)
			err := <-r.done
			r.done <- err
			if err == nil || !strings.Contains(err.Error(), "does not exist any more") || !strings.Contains(err.Error(), "walrelay repair") {
				t.Fatalf("got %v", err)
			}
			p.repaired(Repaired, 20)
			if row := p.loadRow(); row.Timeline != 2 {
				t.Errorf("row %+v", row)
			}
			p.start(p.following()).state(Streaming)
			p.insert(5)
			p.once()
		})
	}
}

// A relay that comes before the promotion waits for it, with a reason, and calls nothing a gap; with one address as with two.
func TestStandbyIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPair(t, "18", synchronized, outboxSQL)
	r := p.start(p.following())
	r.state(Streaming)
	p.synced(func() { p.insert(1) })
	p.delivered()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	p.insert(5)
	if err := p.primary.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	alone := p.config()
	alone.Postgres.URL = p.standby.URL("postgres")
	for _, cfg := range []Config{alone, p.following()} {
		r = p.start(cfg)
		eventually(t, "it waits", func() bool { return strings.Contains(r.Status().Reason, "standby") })
		if status := r.Status(); status.State != Starting || status.Ready || !status.Live {
			t.Errorf("status %+v", status)
		}
		if cfg.Postgres.URL == p.both {
			break
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	p.promote()
	p.insert(5)
	p.delivered()
	if strings.Contains(r.said(), "repair") {
		t.Errorf("a failover was taken for a gap:\n%s", r.said())
	}
}

// Where the first of two addresses leads to a standby, the relay goes on to the other one.
func TestSecondAddressIsThePrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t, "18", nil, outboxSQL)
	cfg := p.config()
	cfg.Postgres.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable", p.standby.Port(), p.primary.Port())
	p.start(cfg).state(Streaming)
	p.insert(1)
	p.delivered()
}

// Two databases have the same ids, and their events share a topic. After an unclean stop of both, each event is there once.
func TestTwoDatabasesShareATopic(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t, "")
	one, two := newWorld(t, s), newWorld(t, s)
	two.brokers = one.brokers
	once := func(w *world) *running { // its producer is known then
		r := w.start(w.config())
		r.state(Streaming)
		w.insert(1)
		w.caughtUp(r)
		return r
	}
	for _, w := range []*world{one, two} {
		if err := once(w).end(); err != nil {
			t.Fatal(err)
		}
		w.uncleanly(w.config(), 20)
	}
	for _, w := range []*world{one, two} {
		if r := once(w); strings.Contains(r.said(), "lost") {
			t.Errorf("the events of the other database are nothing to this one:\n%s", r.said())
		}
	}
	for id := range one.next {
		found := one.identities(id)
		if len(found) != 2 || found[0][:8] == found[1][:8] {
			t.Errorf("event %d: %v, want one of each database", id, found)
		}
	}
}
