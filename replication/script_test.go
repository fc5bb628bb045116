package replication

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// After the script everything is as after init, for run as well.
func TestScriptEqualsInit(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		byInit := Config{URL: s.Database(t)}
		fromInit, _ := setupSteps(t, byInit, SetupOptions{Init: true})

		byScript := Config{URL: s.Database(t), Slot: slotName(t)}
		script := Script{Slot: byScript.Slot, Publication: "p's own", Create: []string{DefaultTable}}
		byScript.Publication = script.Publication
		pgtest.Exec(t, byScript.URL, scriptSQL(t, script))

		fromScript, steps := setupSteps(t, byScript, SetupOptions{})
		if fromScript.Created || changed(steps) {
			t.Errorf("run did something after the script: %v", steps)
		}
		if diff := cmp.Diff(made(t, byInit.URL, fromInit), made(t, byScript.URL, fromScript), cmpopts.IgnoreUnexported(Publication{})); diff != "" {
			t.Errorf("(-init +script):\n%s", diff)
		}
		pgtest.Exec(t, byScript.URL, insert)
		await(t, startPrepared(t, byScript, fromScript), 'I', 1)
	})
}

// everything is what Setup makes, without names and positions.
type everything struct {
	Row         checkpoint.Row
	Publication Publication
	Slot        Slot
	Columns     []string
	Position    bool // the row stands where the slot stands
}

func made(t *testing.T, url string, p *Prepared) everything {
	t.Helper()
	conn := connectSQL(t, url)
	publication, err := FindPublication(t.Context(), conn, p.Server.Version, p.Publication)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := InspectSlot(t.Context(), conn, p.Slot)
	if err != nil {
		t.Fatal(err)
	}
	e := everything{Row: loadRow(t, url, p.Slot), Slot: *slot, Publication: Publication{
		Insert: publication.Insert, ViaRoot: publication.ViaRoot, AllTables: publication.AllTables,
	}}
	e.Position = e.Row.LSN.String() == slot.ConfirmedFlushLSN
	e.Row.Slot, e.Row.LSN, e.Row.SavedAt = "", 0, time.Time{}
	e.Row.Horizon, e.Row.Publication = checkpoint.Horizon{}, "" // a script cannot know them
	e.Slot.Name, e.Slot.Database, e.Slot.RestartLSN, e.Slot.ConfirmedFlushLSN = "", "", "", ""
	for _, c := range p.Tables[0].Relation.Columns {
		e.Columns = append(e.Columns, c.Name)
	}
	return e
}

// A role with no more than the script's grants can start, save and obey, and cannot read the outbox.
func TestScriptRole(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		asRelay, role := asRole(t, url, "REPLICATION")
		slot := slotName(t)
		pgtest.Exec(t, url, scriptSQL(t, Script{Slot: slot, Publication: "p", Role: role}))

		cfg := Config{URL: asRelay, Slot: slot, Publication: "p"}
		prepared, _ := setupSteps(t, cfg, SetupOptions{})
		pgtest.Exec(t, url, insert)
		await(t, startPrepared(t, cfg, prepared), 'I', 1)

		config, err := cfg.SQL()
		if err != nil {
			t.Fatal(err)
		}
		store := checkpoint.NewStore(checkpoint.Always(config))
		defer store.Close(context.Background())
		epoch, row, err := store.Claim(t.Context(), slot, prepared.Server.SystemID, prepared.Server.Timeline)
		if err != nil {
			t.Fatal(err)
		}
		row.Epoch = epoch
		if err := store.Save(t.Context(), row); err != nil {
			t.Error(err)
		}
		operator, relay := connectSQL(t, url), connectSQL(t, asRelay)
		request, err := checkpoint.Ask(t.Context(), operator, slot, checkpoint.Pause, "", "test")
		if err != nil {
			t.Fatal(err)
		}
		if pending, err := checkpoint.Pending(t.Context(), relay, slot); err != nil || len(pending) != 1 {
			t.Errorf("requests %v, %v; want the one that was made", pending, err)
		}
		if err := checkpoint.Done(t.Context(), relay, request, "done"); err != nil {
			t.Error(err)
		}
		if _, err := relay.Exec(t.Context(), `SELECT FROM public.outbox`); err == nil {
			t.Error("the role can read the outbox: it has more than the script's grants")
		}
	})
}

func TestScriptRefusesExistingRows(t *testing.T) {
	t.Parallel()
	url := withOutbox(t, pgtest.Shared(t, ""))
	pgtest.Exec(t, url, insert)
	conn := connectSQL(t, url)
	script := Script{Slot: slotName(t), Publication: "p"}
	_, err := conn.PgConn().Exec(t.Context(), scriptSQL(t, script)).ReadAll()
	if err == nil || !strings.Contains(err.Error(), "has rows already") {
		t.Fatalf("got %v, want a refusal", err)
	}
	_, err = Setup(t.Context(), Config{URL: url, Slot: script.Slot, Publication: "p"}, SetupOptions{})
	wantSetupError(t, err, "walrelay init")

	skipping := withOutbox(t, pgtest.Shared(t, ""))
	pgtest.Exec(t, skipping, insert)
	script = Script{Slot: slotName(t) + "_skip", Publication: "p", Existing: SkipExisting}
	pgtest.Exec(t, skipping, scriptSQL(t, script))
	setupSteps(t, Config{URL: skipping, Slot: script.Slot, Publication: "p"}, SetupOptions{})
}

func TestScriptFailover(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		if s.Version() < "17" {
			t.Skip("failover slots came with 17")
		}
		t.Parallel()
		url := withOutbox(t, s)
		script := Script{Slot: slotName(t), Publication: "p", Failover: true}
		pgtest.Exec(t, url, scriptSQL(t, script))
		slot, err := InspectSlot(t.Context(), connectSQL(t, url), script.Slot)
		if err != nil || slot == nil || !slot.Failover || slot.TwoPhase || slot.Temporary {
			t.Errorf("slot %+v, %v", slot, err)
		}
	})
}

// Without a role the grants are there to read, not to run.
func TestScriptWithoutRole(t *testing.T) {
	t.Parallel()
	for _, line := range strings.Split(scriptSQL(t, Script{Slot: "s", Publication: "p"}), "\n") {
		if strings.Contains(line, "GRANT") && !strings.HasPrefix(line, "--") {
			t.Errorf("not a comment: %s", line)
		}
	}
	_, err := Script{Slot: "Not Allowed"}.SQL()
	wantSetupError(t, err, "a-z")
	_, err = Script{Slot: "s", Tables: []string{"outbox"}}.SQL()
	wantSetupError(t, err, "schema.table")
}

func scriptSQL(t *testing.T, s Script) string {
	t.Helper()
	sql, err := s.SQL()
	if err != nil {
		t.Fatal(err)
	}
	return sql
}

// An outbox of messages alone needs no table, neither from the script nor from init.
func TestSetupWithoutTables(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		byInit := Config{URL: s.Database(t), Messages: true}
		fromInit, _ := setupSteps(t, byInit, SetupOptions{Init: true})
		byScript := Config{URL: s.Database(t), Slot: slotName(t), Publication: "p", Messages: true}
		pgtest.Exec(t, byScript.URL, scriptSQL(t, Script{Slot: byScript.Slot, Publication: "p", Messages: true}))
		fromScript, steps := setupSteps(t, byScript, SetupOptions{})
		if fromScript.Created || changed(steps) || len(fromScript.Tables)+len(fromInit.Tables) > 0 {
			t.Errorf("run did something after the script: %v", steps)
		}
		pgtest.Exec(t, byScript.URL, `SELECT walrelay.emit('order', 'k', 'Created', '{}')`)
		await(t, startPrepared(t, byScript, fromScript), 'M', 1)
	})
}
