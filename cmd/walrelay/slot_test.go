package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/replication"
)

const outboxTable = `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload text)`

// hold reads from a slot as another program would, until the returned function is called.
func hold(t *testing.T, url, slot, publication string) (release func()) {
	t.Helper()
	conn, err := replication.Connect(t.Context(), replication.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := conn.Start(t.Context(), slot, publication)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Abort)
	return stream.Abort
}

// A slot's life: made, looked at, held, dropped.
func TestSlot(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url}
	slot := replication.DefaultSlot(url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")])
	refused := func(want string, args ...string) {
		t.Helper()
		if got := walrelay(t, environ, args...); got.code != exitPerson || !oneLineWith(got.err, "walrelay: "+want) {
			t.Errorf("%v: code %d, %s%s", args, got.code, got.out, got.err)
		}
	}
	refused("slot "+slot+" does not exist; walrelay init makes it", "slot", "inspect")
	refused("slot "+slot+" does not exist; ", "slot", "drop", "--yes")
	refused("slot "+slot+" does not exist; name the slot", "slot", "adopt")

	if got := walrelay(t, environ, "slot", "create"); got.code != exitStopped || !strings.Contains(got.out, "+ slot "+slot+" created") {
		t.Fatalf("create: code %d, %s%s", got.code, got.out, got.err)
	}
	got := walrelay(t, environ, "slot", "inspect")
	for _, row := range []string{"slot_name", "confirmed_flush_lsn", "wal_status", "two_phase", "held by", "bytes to send", "publication " + slot,
		"checkpoint state", "checkpoint lsn", "checkpoint match_by_id"} {
		if !strings.Contains(got.out, "\n"+row+"  ") && !strings.HasPrefix(got.out, row+"  ") {
			t.Errorf("no line %q in\n%s", row, got.out)
		}
	}
	if got.code != exitStopped || !strings.Contains(got.out, "  nobody\n") {
		t.Errorf("inspect: code %d, %s%s", got.code, got.out, got.err)
	}
	refused("slot "+slot+" is walrelay's already", "slot", "adopt")

	release := hold(t, url, slot, slot)
	refused("slot "+slot+" is held by process ", "slot", "drop", "--yes")
	release()
	if got := walrelay(t, environ, "slot", "drop"); got.code != exitConfiguration || !oneLineWith(got.err, "walrelay: slot "+slot+" has ", "--yes") {
		t.Errorf("drop: code %d, %s", got.code, got.err)
	}
	if got := walrelay(t, environ, "slot", "drop", "--yes"); got.code != exitStopped || !strings.Contains(got.out, "slot "+slot+" dropped\n") ||
		!strings.Contains(got.out, "DELETE FROM walrelay.checkpoint WHERE slot = '"+slot+"'") {
		t.Errorf("drop --yes: code %d, %s%s", got.code, got.out, got.err)
	}
	refused("slot "+slot+" does not exist", "slot", "inspect")
}

func TestSlotInspectJSON(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		pgtest.Exec(t, url, outboxTable, `SELECT pg_create_logical_replication_slot('of_'||current_database(), 'pgoutput')`)
		slot := "of_" + url[strings.LastIndex(url, "/")+1:strings.Index(url, "?")]
		inspect := func() replication.Inspection {
			t.Helper()
			got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=" + url}, "slot", "inspect", "--json", "--slot", slot, "--publication", "p")
			var found replication.Inspection
			if err := json.Unmarshal([]byte(got.out), &found); err != nil || got.code != exitStopped || strings.Count(got.out, "\n") != 1 {
				t.Fatalf("code %d, %v, %s%s", got.code, err, got.out, got.err)
			}
			return found
		}
		found := inspect()
		var columns map[string]any
		if err := json.Unmarshal(found.Slot, &columns); err != nil || columns["slot_name"] != slot || columns["plugin"] != "pgoutput" || columns["catalog_xmin"] == nil {
			t.Errorf("%s, %v", found.Slot, err)
		}
		if string(found.Checkpoint) != "null" || found.Publication.Exists || found.Publication.Passed || found.Holder != "" {
			t.Errorf("%+v", found)
		}
		pgtest.Exec(t, url, `CREATE PUBLICATION p FOR TABLE outbox`, `INSERT INTO outbox DEFAULT VALUES`)
		defer hold(t, url, slot, "p")()
		if found := inspect(); !found.Publication.Exists || found.Publication.Passed || found.UnconfirmedBytes == 0 ||
			found.RetainedBytes < found.UnconfirmedBytes || !strings.HasPrefix(found.Holder, "process ") {
			t.Errorf("%+v", found)
		}
	})
}

// Each step of a take-over says what comes next; the steps themselves are tested in package replication.
func TestSlotAdopt(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	slot := "of_" + url[strings.LastIndex(url, "/")+1:strings.Index(url, "?")]
	pgtest.Exec(t, url, outboxTable, `CREATE PUBLICATION theirs FOR ALL TABLES`, `SELECT pg_create_logical_replication_slot('`+slot+`', 'pgoutput')`,
		`SELECT pg_create_logical_replication_slot('`+slot+`_2', 'pgoutput')`)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_POSTGRES_SLOT=" + slot, "WALRELAY_POSTGRES_PUBLICATION=ours"}
	release := hold(t, url, slot, "theirs")
	adopt := []string{"slot", "adopt", "--match-by-id"}
	got := walrelay(t, environ, adopt...)
	if got.code != exitPerson || !oneLineWith(got.err, "walrelay: publication theirs would send the new table walrelay.checkpoint", "--no-subscribers theirs") {
		t.Errorf("with their publication: code %d, %s%s", got.code, got.out, got.err)
	}
	adopt = append(adopt, "--no-subscribers", "theirs")
	got = walrelay(t, environ, adopt...)
	if got.code != exitPerson || !strings.Contains(got.out, "+ publication ours created\n") || !oneLineWith(got.err, "walrelay: slot "+slot, "not past", "leave that program running") {
		t.Errorf("with the other one at work: code %d, %s%s", got.code, got.out, got.err)
	}
	release()
	deadline := time.Now().Add(30 * time.Second)
	for passed := false; !passed; {
		if time.Now().After(deadline) {
			t.Fatalf("the slot does not pass the publication: %s", got.err)
		}
		pgtest.Exec(t, url, `INSERT INTO outbox DEFAULT VALUES`, `CHECKPOINT`, `SELECT pg_replication_slot_advance('`+slot+`', pg_current_wal_lsn())`)
		got = walrelay(t, environ, adopt...)
		passed = !strings.Contains(got.err, "not past") && !strings.Contains(got.err, "held by process")
	}
	if got.code != exitStopped || !strings.Contains(got.out, "+ slot "+slot+" adopted at ") || !strings.HasSuffix(got.out, "ready: walrelay run goes on from slot "+slot+"\n") {
		t.Errorf("at last: code %d, %s%s", got.code, got.out, got.err)
	}
}
