package replication

import (
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// Everything of a glance is of one snapshot, and its log position behind it.
func TestGlance(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		p, _ := setupSteps(t, Config{URL: url}, SetupOptions{})
		conn := connectSQL(t, url)
		glance := func() Moment {
			t.Helper()
			m, err := Glance(t.Context(), conn, p.Server.Version, p.Publication, []string{DefaultTable})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		before := time.Now()
		first := glance()
		if first.Fingerprint != p.Fingerprint || first.Oldest > first.Next || first.End == 0 || first.Time.Sub(before).Abs() > time.Minute {
			t.Errorf("got %+v, fingerprint of the setup %s", first, p.Fingerprint)
		}
		writer := openTransaction(t, url)
		var running uint64
		if err := writer.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&running); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, url, insert)
		if m := glance(); m.Oldest > running || m.Next <= running || m.End <= first.End {
			t.Errorf("while %d runs: %+v", running, m)
		}
		if _, err := writer.Exec(t.Context(), `COMMIT`); err != nil {
			t.Fatal(err)
		}
		for _, change := range []string{
			`ALTER PUBLICATION ` + quote(p.Publication) + ` DROP TABLE outbox`,
			`ALTER PUBLICATION ` + quote(p.Publication) + ` ADD TABLE outbox`,
			`DROP PUBLICATION ` + quote(p.Publication),
		} {
			earlier := glance().Fingerprint
			pgtest.Exec(t, url, change)
			if later := glance().Fingerprint; later == earlier || later == p.Fingerprint {
				t.Errorf("after %s the fingerprint is %q, before %q", change, later, earlier)
			}
		}
	})
}

func TestSwitchPoint(t *testing.T) {
	t.Parallel()
	const history = "1\t0/3000000\tno recovery target specified\n\n# a remark\n2\t0/5000148\tbefore 2026-01-01 00:00:00+00\n"
	for timeline, want := range map[int32]lsn.End{1: 0x3000000, 2: 0x5000148, 3: 0} {
		end, ok, err := switchPoint(history, timeline)
		if end != want || ok != (want != 0) || err != nil {
			t.Errorf("timeline %d: %v, %v, %v; want %v", timeline, end, ok, err, want)
		}
	}
	if _, _, err := switchPoint("one\t0/1\n", 1); err == nil {
		t.Error("nonsense is read")
	}
}

// Look tells the row filter of the publication, without which rows would count as missing that were never to be sent.
func TestLook(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		p, _ := setupSteps(t, Config{URL: url}, SetupOptions{})
		conn := connectSQL(t, url)
		want := ""
		if p.Server.Version >= firstWithSchemas {
			pgtest.Exec(t, url, `ALTER PUBLICATION `+quote(p.Publication)+` SET TABLE outbox WHERE (aggregatetype = 'order')`)
			want = "(aggregatetype = 'order'::text)"
		}
		survey, err := Look(t.Context(), conn, Config{URL: url}, []string{DefaultTable}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if survey.Row == nil || survey.Row.Horizon.XID == 0 || survey.At == nil || survey.Filters[0] != want || survey.Slot != p.Slot {
			t.Errorf("got %+v, filter %q", survey, survey.Filters[0])
		}
		_, err = Look(t.Context(), conn, Config{URL: url}, []string{"public.absent"}, nil)
		wantSetupError(t, err, "public.absent does not exist")
	})
}
