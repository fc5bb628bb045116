package replication

import (
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// What the server says of a slot is the same on every version, as far as the version has it; whoever pins the log is named.
func TestWatchSlot(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		slot := slotName(t)
		pgtest.Exec(t, url, `CREATE TABLE t (i int)`)
		asRelay, _ := asRole(t, url, "REPLICATION")
		conn := connectSQL(t, asRelay)

		w, err := WatchSlot(t.Context(), conn, slot)
		if err != nil {
			t.Fatal(err)
		}
		if w.Slot != nil || w.End == 0 || w.KeepLimit >= 0 {
			t.Errorf("without a slot: %+v", w)
		}

		pgtest.Exec(t, url, `SELECT pg_create_logical_replication_slot('`+slot+`', 'pgoutput')`,
			`INSERT INTO t SELECT generate_series(1, 10000)`)
		w, err = WatchSlot(t.Context(), conn, slot)
		if err != nil {
			t.Fatal(err)
		}
		if w.Slot == nil || w.Slot.WALStatus != "reserved" || w.Slot.ActivePID != 0 || w.Slot.RestartLSN == "" {
			t.Errorf("slot %+v", w.Slot)
		}
		if w.Unconfirmed < 10000 || w.Retained < w.Unconfirmed {
			t.Errorf("unconfirmed %d, retained %d", w.Unconfirmed, w.Retained)
		}
	})
}

func TestWatchNamesPins(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		owner := openTransaction(t, url)
		var pid int32
		if err := owner.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		asRelay, role := asRole(t, url, "REPLICATION")
		find := func() (found Pin, ok bool) {
			all, err := pins(t.Context(), connectSQL(t, asRelay), 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range all {
				if p.PID == pid {
					return p, true
				}
			}
			return Pin{}, false
		}
		if p, ok := find(); ok {
			t.Errorf("a role without pg_monitor sees %v", p)
		}
		pgtest.Exec(t, url, `GRANT pg_monitor TO `+role)
		p, ok := find()
		text := p.String()
		if !ok || p.State != "idle in transaction" || p.Begun.IsZero() || p.QueryStart.Before(p.Begun) ||
			!strings.Contains(text, "idle in transaction") || !strings.Contains(text, "query since "+p.QueryStart.UTC().Format("2006-01-02T")) {
			t.Errorf("found %v: %+v", ok, p)
		}
	})
}
