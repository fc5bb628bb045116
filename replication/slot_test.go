package replication

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// A slot that is being made is waited for; whatever else is wrong with a slot needs a person.
func TestSlotUsable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Slot)
		want   string // in the error; empty: usable
	}{
		{"usable", func(*Slot) {}, ""},
		{"held by somebody", func(s *Slot) { s.ActivePID = 7 }, ""},
		{"running out of WAL", func(s *Slot) { s.WALStatus = "unreserved" }, ""},
		{"synced long ago", func(s *Slot) { s.Failover, s.Synced = true, true }, ""},
		{"physical", func(s *Slot) { s.Type, s.Plugin, s.Database = "physical", "", "" }, "physical slot"},
		{"other plugin", func(s *Slot) { s.Plugin = "wal2json" }, "wal2json"},
		{"other database", func(s *Slot) { s.Database = "shop" }, "belongs to the database shop"},
		{"temporary", func(s *Slot) { s.Temporary = true }, "temporary"},
		{"two-phase", func(s *Slot) { s.TwoPhase = true }, "two-phase"},
		{"lost", func(s *Slot) { s.WALStatus = "lost" }, "walrelay repair"},
		{"invalidated", func(s *Slot) { s.InvalidationReason = "idle_timeout" }, "idle_timeout"},
		{"conflicting", func(s *Slot) { s.Conflicting = true }, "walrelay repair"},
		{"unfinished", func(s *Slot) { s.ConfirmedFlushLSN = "" }, "still being made"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := Slot{Name: "s", Type: "logical", Plugin: "pgoutput", Database: "app", WALStatus: "reserved", ConfirmedFlushLSN: "0/1"}
			test.change(&s)
			err := s.Usable("app")
			var setup *SetupError
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v, want usable", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q in it", err, test.want)
			case test.want != "" && errors.As(err, &setup) == errors.Is(err, ErrSlotUnfinished):
				t.Errorf("%v: class is wrong", err)
			}
		})
	}
}

func TestDefaultSlot(t *testing.T) {
	t.Parallel()
	for database, want := range map[string]string{
		"app":                      "walrelay_app",
		"Shop-2":                   "walrelay_shop_2",
		"käse":                     "walrelay_k_se",
		strings.Repeat("long", 20): "walrelay_" + strings.Repeat("long", 20)[:54],
	} {
		got := DefaultSlot(database)
		if got != want || CheckSlotName(got) != nil {
			t.Errorf("DefaultSlot(%q) = %q (%v), want %q", database, got, CheckSlotName(got), want)
		}
	}
}

func TestCheckSlotName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"a": true, "walrelay_1": true, strings.Repeat("x", 63): true,
		"": false, "A": false, "a-b": false, "a b": false, "ä": false, "a;": false, "a\n": false, strings.Repeat("x", 64): false,
	} {
		if err := CheckSlotName(name); (err == nil) != good {
			t.Errorf("%q: %v, want allowed %v", name, err, good)
		}
	}
}

// A slot made with an exported snapshot divides the rows: what the snapshot shows is not sent, the rest is.
func TestCreateSlotDividesTheRows(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		name := slotName(t)
		conn := connectSQL(t, url)
		pgtest.Exec(t, url, `CREATE TABLE public.t (id int)`, createPublicationSQL(name, []string{"public.t"}),
			`INSERT INTO public.t SELECT generate_series(1, 10)`)

		replica, err := Connect(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer replica.Close()
		if slot, err := InspectSlot(t.Context(), conn, name); slot != nil || err != nil {
			t.Fatalf("before: %+v, %v; want none", slot, err)
		}
		consistent, snapshot, err := replica.CreateSlot(t.Context(), name, false)
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, url, `INSERT INTO public.t SELECT generate_series(11, 25)`)

		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		var before int
		if _, err := tx.Exec(t.Context(), `SET TRANSACTION SNAPSHOT '`+snapshot+`'`); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM public.t`).Scan(&before); err != nil || before != 10 {
			t.Errorf("the snapshot has %d rows, %v; want 10", before, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}

		slot, err := InspectSlot(t.Context(), conn, name)
		if err != nil || slot == nil {
			t.Fatalf("slot: %v, %v", slot, err)
		}
		if err := slot.Usable(strings.Split(strings.SplitAfter(url, "/")[3], "?")[0]); err != nil {
			t.Error(err)
		}
		if position, err := lsn.ParseEnd(slot.ConfirmedFlushLSN); position != consistent || err != nil {
			t.Errorf("slot is at %s, %v; the consistent point is %s", slot.ConfirmedFlushLSN, err, consistent)
		}
		if slot.ActivePID != 0 || slot.RestartLSN == "" || slot.WALStatus != "reserved" {
			t.Errorf("slot %+v", slot)
		}
		stream := start(t, Config{URL: url}, name)
		rows := await(t, stream, 'I', 15)
		if first := string(rows[0].Data); !strings.HasSuffix(first, "11") {
			t.Errorf("the first row sent is %q, want 11", first)
		}
		if slot, err = InspectSlot(t.Context(), conn, name); err != nil || slot.ActivePID == 0 {
			t.Errorf("while streaming: active process %d, %v", slot.ActivePID, err)
		}
	})
}

func TestFailoverSlot(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		pgtest.Exec(t, url, `CREATE TABLE public.outbox (id int)`)
		prepared, err := Setup(t.Context(), Config{URL: url}, SetupOptions{Failover: true})
		if s.Version() < "17" {
			wantSetupError(t, err, "Postgres 17")
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		slot, err := InspectSlot(t.Context(), connectSQL(t, url), prepared.Slot)
		if err != nil || !slot.Failover {
			t.Errorf("slot %+v, %v; want failover", slot, err)
		}
	})
}

// max_slot_wal_keep_size gives the disk back and takes the events.
func TestLostSlotIsNotUsable(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, shared *pgtest.Server) {
		t.Parallel()
		s := pgtest.Start(t, pgtest.Options{
			Version: shared.Version(), Settings: map[string]string{"max_slot_wal_keep_size": "1MB"},
		})
		url := s.URL("postgres")
		conn := connectSQL(t, url)
		pgtest.Exec(t, url, `SELECT pg_create_logical_replication_slot('lost', 'pgoutput')`)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for {
			slot, err := InspectSlot(ctx, conn, "lost")
			if err != nil {
				t.Fatal(err)
			}
			if err := slot.Usable("postgres"); err != nil {
				wantSetupError(t, err, "walrelay repair")
				return
			}
			pgtest.Exec(t, url, `CREATE TABLE fill (); DROP TABLE fill`, `SELECT pg_switch_wal()`, `CHECKPOINT`)
		}
	})
}
