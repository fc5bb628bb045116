package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A standby has what the primary has written, and goes on from there on a timeline of its own.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			primary := Start(t, Options{Version: version})
			Exec(t, primary.URL("postgres"), "create table kept (n int)")
			standby := StartStandby(t, primary)
			Exec(t, primary.URL("postgres"), "insert into kept values (1)")
			if err := standby.AwaitReplayed(t.Context(), primary); err != nil {
				t.Fatal(err)
			}
			if err := primary.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := standby.Promote(t.Context()); err != nil {
				t.Fatal(err)
			}
			Exec(t, standby.URL("postgres"), "insert into kept values (2)")
			if got := query(t, standby.URL("postgres"), "SELECT count(*) FROM kept"); got != "2" {
				t.Errorf("%s rows", got)
			}
			if got := query(t, standby.URL("postgres"), "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"); got != "00000002" {
				t.Errorf("timeline %s", got)
			}
		})
	}
}

// A failover slot goes along, as soon as the primary's has moved.
func TestStandbySynchronisesSlots(t *testing.T) {
	t.Parallel()
	primary := Start(t, Options{Settings: map[string]string{"synchronized_standby_slots": StandbySlot}})
	standby := StartStandby(t, primary)
	Exec(t, primary.URL("postgres"), "select pg_create_logical_replication_slot('along', 'pgoutput', false, false, true)",
		"select pg_create_logical_replication_slot('behind', 'pgoutput')")
	deadline := time.Now().Add(30 * time.Second)
	for err := error(context.DeadlineExceeded); err != nil; {
		if !errors.Is(err, context.DeadlineExceeded) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		Exec(t, primary.URL("postgres"), "select pg_logical_emit_message(true, 'move', '')",
			"select pg_replication_slot_advance('along', pg_current_wal_flush_lsn())")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = standby.AwaitSlotSynced(ctx, primary, "along")
		cancel()
	}
	if err := primary.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, standby.URL("postgres"), "SELECT string_agg(slot_name, ' ') FROM pg_replication_slots WHERE slot_type = 'logical'"); got != "along" {
		t.Errorf("slots %q", got)
	}
}
