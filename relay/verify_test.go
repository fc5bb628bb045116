package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/router"
)

func (w *world) verify(o VerifyOptions) audit.Report {
	w.t.Helper()
	report, err := Verify(w.t.Context(), w.config(), o, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestVerify(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := published(t, s)
		if got := w.verify(VerifyOptions{}); got.Rows != 10 || got.Found != 10 || got.Records != 10 || differs(got) || got.Foreign.Count != 0 || !got.Provable {
			t.Errorf("all is well: %+v", got)
		}
		w.insert(2)
		w.exec("insert into outbox values (100, 'other', 'x', 'Created')")
		w.exec("delete from outbox where id = 3")
		w.exec("update outbox set payload = '{}' where id = 4")
		w.produce("k5", "5") // with another value, so it is no duplicate
		got := w.verify(VerifyOptions{})
		if got.Rows != 12 || got.Missing.Count != 4 || got.Found != 8 || got.Foreign.Count != 3 || got.Duplicated.Count+got.OutOfOrder.Count != 0 || got.Provable {
			t.Errorf("after changes: %+v", got)
		}
		if all := strings.Join(got.Missing.Examples, ", "); !strings.Contains(all, "public.outbox id 100 (key x, topic outbox.event.other)") ||
			!strings.Contains(all, "id 4 (key k4") {
			t.Errorf("missing: %s", all)
		}
		if got = w.verify(VerifyOptions{Select: audit.Selection{FirstID: "5", LastID: "10"}}); got.Rows != 6 || got.Missing.Count != 1 || got.Foreign.Count != 1 {
			t.Errorf("ids 5..10: %+v", got)
		}
		w.exec("alter table outbox add created_at timestamptz")
		w.exec("update outbox set created_at = now() - interval '1 day' * (12 - id) where id < 12")
		since := audit.Selection{Since: time.Now().Add(-3*24*time.Hour - time.Hour)}
		if got = w.verify(VerifyOptions{Select: since}); got.Rows != 3 || got.Missing.Count != 2 || got.Foreign.Count != 0 {
			t.Errorf("since three days: %+v", got)
		}
	})
}

func differs(r audit.Report) bool {
	return r.Missing.Count+r.Duplicated.Count+r.OutOfOrder.Count+r.Unpublishable.Count > 0
}

// Rows that the publication's row filter leaves out are no events.
func TestVerifyRowFilter(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.exec("alter publication " + w.slotName() + " set table outbox where (aggregatetype <> 'internal')")
	w.exec("insert into outbox values (100, 'internal', 'k', 't')")
	if got := w.verify(VerifyOptions{}); got.Rows != 10 || differs(got) {
		t.Errorf("got %+v", got)
	}
}

// A relay that publishes meanwhile is waited for, and what is younger than the look counts for nothing.
func TestVerifyWhileARelayRuns(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	w.insert(500)
	started := false
	got := w.verify(VerifyOptions{Wait: 30 * time.Second, Progress: func(p audit.Progress) {
		if p.Step == "reading topics" && !started {
			started = true
			w.start(w.config()).state(Streaming)
			w.insert(100)
		}
	}})
	if got.Rows != 510 || differs(got) || got.Foreign.Count != 0 {
		t.Errorf("got %+v", got)
	}
}

// The dead-letter topic and rows that no record can be made of are told apart from what is missing.
func TestVerifyDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null")
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	r := w.start(cfg)
	r.state(Streaming)
	w.exec("insert into outbox values (1, null, 'k', 't', '{}'), (2, 'not/legal', 'k', 't', '{}'), (3, 'order', 'k', 't', '{}')")
	eventually(t, "all are somewhere", func() bool { return len(w.records()) == 3 })
	got, err := Verify(t.Context(), cfg, VerifyOptions{}, nil)
	if err != nil || got.Buried != 2 || got.Found != 1 || differs(got) {
		t.Errorf("with the topic: %+v, %v", got, err)
	}
	got = w.verify(VerifyOptions{})
	if got.Unpublishable.Count != 2 || got.Missing.Count != 0 || !strings.Contains(got.Unpublishable.Examples[0], "NULL") {
		t.Errorf("without it: %+v", got)
	}
}

// A row read from the table is the very record that came through the log, whatever the types, and whatever the database
// would make of their text by its own settings.
func TestVerifyEveryType(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		columns := [][2]string{
			{"json", `'{"b":  1}'`}, {"bytea", `'\x00ff'`}, {"timestamptz", `'2026-01-02 03:04:05.678901+00'`}, {"timestamp", `'2026-01-02 03:04:05'`},
			{"date", `'2026-01-02'`}, {"time", `'03:04:05.6'`}, {"timetz", `'03:04:05+02'`}, {"interval", `'1 year 2 days 03:04:05'`},
			{"numeric", "1.50"}, {"numeric(10,3)", "2"}, {"real", "0.1"}, {"double precision", "0.1"}, {"boolean", "true"}, {"smallint", "-1"},
			{"uuid", "'c0ffee00-0000-4000-8000-000000000001'"}, {"inet", "'10.0.0.1/8'"}, {"int4range", "'[1,5)'"}, {"bit varying(5)", "'101'"},
			{"text[]", `'{x,"y z",NULL}'`}, {"integer[]", "'{1,2}'"}, {"mood", "'happy'"}, {"positive", "7"}, {"char(5)", "'x'"},
			{"money", "'12.34'"}, {"point", "'(1,2)'"}, {"text", "NULL"},
		}
		w.exec("create type mood as enum ('sad', 'happy')")
		w.exec("create domain positive as integer check (value > 0)")
		cfg := w.config()
		cfg.Tables = []Table{{Name: "public.outbox", Route: router.Config{Value: router.ValueFormat{Format: "json"}}}}
		var values []string
		for i, column := range columns {
			name := fmt.Sprint("c", i)
			w.exec("alter table outbox add " + name + " " + column[0])
			values = append(values, column[1])
			cfg.Tables[0].Route.Placements = append(cfg.Tables[0].Route.Placements, name+":envelope")
		}
		database := w.db.Config().Database
		for _, setting := range []string{"DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "IntervalStyle = 'sql_standard'", "bytea_output = 'escape'",
			"extra_float_digits = 0"} {
			w.exec("alter database " + database + " set " + setting)
		}
		r := w.start(cfg)
		r.state(Streaming)
		w.exec("insert into outbox values (1, 'order', 'k', 'Created', '{\"b\": 1}', " + strings.Join(values, ", ") + ")")
		eventually(t, "the record", func() bool { return len(w.records()) == 1 })
		if value := string(w.records()[0].Value); !strings.Contains(value, `"c20":"happy"`) || !strings.Contains(value, "2026-01-02T03:04:05.678901Z") {
			t.Errorf("value %s", value)
		}
		got, err := Verify(t.Context(), cfg, VerifyOptions{}, nil)
		if err != nil || got.Rows != 1 || got.Found != 1 || differs(got) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
