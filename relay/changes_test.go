package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// What others do to the table and the publication under a running relay, with rows in between and without. Whatever it is,
// either every row arrives, or the relay stops and says which may not have.
func TestChangesUnderARunningRelay(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		for _, c := range []struct {
			name  string
			sql   func(name string) string // %s is a row in between
			lost  bool                     // the row in between is not in the stream
			gone  bool                     // as lost, or the stream itself meets a place without the publication
			stops []string                 // parts of the error, where even nothing in between stops it
		}{
			{name: "table taken out and back", lost: true, sql: func(p string) string {
				return "alter publication " + p + " drop table outbox; %s alter publication " + p + " add table outbox"
			}},
			{name: "inserts off and on", lost: true, sql: func(p string) string {
				return "alter publication " + p + " set (publish = 'update'); %s alter publication " + p + " set (publish = 'insert')"
			}},
			{name: "publication made anew at once", sql: func(p string) string {
				return "begin; %s drop publication " + p + "; create publication " + p + " for table outbox with (publish = 'insert'); commit"
			}},
			{name: "publication gone for a while", gone: true, sql: func(p string) string {
				return "drop publication " + p + "; %s create publication " + p + " for table outbox with (publish = 'insert')"
			}},
			{name: "renamed and back", sql: func(string) string {
				return "alter table outbox rename to box; %s alter table box rename to outbox"
			}},
			{name: "renamed for good", sql: func(string) string { return "alter table outbox rename to box; %s select" },
				stops: []string{"public.outbox does not exist", "public.box"}},
			{name: "made anew", lost: true, sql: func(p string) string {
				return "drop table outbox; " + outboxSQL + "; %s alter publication " + p + " add table outbox"
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for _, between := range []bool{false, true} {
					w := published(t, s)
					r := w.start(w.config())
					r.state(Streaming)
					w.change(c.sql(w.slotName()), between)
					switch {
					case c.stops != nil:
						w.stopsSetup(r, c.stops...)
						w.moved("public.box") // and the configuration is mended
					case between && c.lost:
						w.insert(1) // the next save finds it out
						r.stops("publication", "; 1 of ", "id 10", "walrelay repair")
					case between && c.gone: // the next save finds it out, or the stream, whichever is first
						w.insert(1)
						w.stopsSetup(r, "publication", "walrelay repair")
					case c.gone:
					default:
						before := w.fingerprint()
						w.insert(5)
						if c.lost && w.unproven(r) {
							continue
						}
						w.delivered()
						eventually(t, "the change is adopted", func() bool { return strings.Contains(c.name, "renamed") || w.fingerprint() != before })
					}
				}
			})
		}
	})
}

// unproven tells whether the relay has stopped since rows that it published went with their table, and nobody can tell that
// there were no more. Whether it does depends on how far the horizon has come: other databases write log meanwhile.
func (w *world) unproven(r *running) bool {
	w.t.Helper()
	eventually(w.t, "the new rows come, or the relay stops", func() bool {
		return r.Status().State == Stopped || len(w.records()) >= w.next
	})
	if r.Status().State != Stopped {
		return false
	}
	if reason := r.Status().Reason; !strings.Contains(reason, "cannot be proven") {
		w.t.Errorf("stopped for %q", reason)
	}
	return true
}

// change executes statements one by one, with a row in the place of %s.
func (w *world) change(sql string, row bool) {
	w.t.Helper()
	insert := ""
	if row {
		table := "outbox"
		if strings.Contains(sql, "rename to box") {
			table = "box"
		}
		insert = fmt.Sprintf("insert into %s values (%d, 'order', 'k', 'Created');", table, w.next)
		w.next++
	}
	for statement := range strings.SplitSeq(fmt.Sprintf(sql, insert), ";") {
		w.exec(statement)
	}
}

// stopsSetup is stops for an error of the setup.
func (w *world) stopsSetup(r *running, parts ...string) {
	w.t.Helper()
	w.exec("select pg_logical_emit_message(true, 'x', 'something to save behind')")
	eventually(w.t, "the relay stops", func() bool { return r.Status().State == Stopped })
	for _, part := range parts {
		if reason := r.Status().Reason; !strings.Contains(reason, part) {
			w.t.Errorf("got %q, want %q in it", reason, part)
		}
	}
}

// moved goes on with a table under another name.
func (w *world) moved(table string) {
	w.t.Helper()
	cfg := w.config()
	cfg.Tables = []Table{{Name: table}}
	w.start(cfg).state(Streaming)
	w.exec(fmt.Sprintf("insert into %s values (%d, 'order', 'k', 'Created')", table, w.next))
	w.next++
	w.delivered()
}

// Rows that were inserted before a table was renamed come under its former name; it is the same table.
func TestRenamedWhileStopped(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.insert(10)
	w.exec("alter table outbox rename to box")
	w.moved("public.box")
}

// A slot that is dropped and made anew, or moved, while there is no connection is found out before anything is read from
// it; and so is a publication that was changed.
func TestChangesDuringAReconnect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{"slot made anew", "select pg_drop_replication_slot($1)", "select pg_create_logical_replication_slot($1, 'pgoutput')",
			[]string{"walrelay repair"}},
		{"slot moved", "select $1::text", "select pg_replication_slot_advance($1, pg_current_wal_insert_lsn())",
			[]string{"; 2 of ", "the slot was moved or made anew", "walrelay repair"}},
		{"table taken out and back", "alter publication %s drop table outbox", "alter publication %s add table outbox",
			[]string{"; 2 of ", "publication", "walrelay repair"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := published(t, pgtest.Shared(t, ""))
			var closed atomic.Bool
			cfg := w.config()
			cfg.Postgres.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if closed.Load() {
					return nil, errors.New("no network")
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			r := w.start(cfg)
			r.state(Streaming)
			name := w.slotName()
			do := func(sql string) {
				if strings.Contains(sql, "%s") {
					w.exec(fmt.Sprintf(sql, name))
					return
				}
				w.exec(sql, name)
			}
			closed.Store(true)
			w.exec("select pg_terminate_backend(active_pid, 20000) from pg_replication_slots where slot_name = $1", name)
			do(c.before)
			w.insert(2)
			do(c.after)
			closed.Store(false)
			eventually(t, "the relay stops", func() bool { return r.Status().State == Stopped })
			for _, part := range c.want {
				if reason := r.Status().Reason; !strings.Contains(reason, part) {
					t.Errorf("got %q, want %q in it", reason, part)
				}
			}
			if n := len(w.records()); n != 10 {
				t.Errorf("%d records, want those from before", n)
			}
		})
	}
}
