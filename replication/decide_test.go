package replication

import (
	"strings"
	"testing"

	"github.com/walrelay/walrelay/checkpoint"
)

// Every combination of the three things that belong together, for run and for init.
func TestDecide(t *testing.T) {
	t.Parallel()
	server := &Server{SystemID: "1", Database: "app"}
	publication := &Publication{Name: "p"}
	slot := func(change ...func(*Slot)) *Slot {
		s := &Slot{Name: "s", Type: "logical", Plugin: "pgoutput", Database: "app", WALStatus: "reserved", ConfirmedFlushLSN: "0/1"}
		for _, f := range change {
			f(s)
		}
		return s
	}
	row := func(state checkpoint.State) *checkpoint.Row {
		return &checkpoint.Row{Slot: "s", State: state, SystemID: "1"}
	}
	foreign := row(checkpoint.Ready)
	foreign.SystemID = "2"

	const (
		kept    = "keep"
		created = "create"
		redone  = "redo"
	)
	tests := []struct {
		name      string
		found     found
		run, init string // the plan, or what the error must name
	}{
		{"nothing", found{}, created, created},
		{"all", found{row(checkpoint.Ready), publication, slot()}, kept, kept},
		{"all, stopped cleanly", found{row(checkpoint.Clean), publication, slot()}, kept, kept},
		{"all, drained", found{row(checkpoint.Drained), publication, slot()}, kept, kept},

		{"only the publication", found{nil, publication, nil}, "walrelay init", created},
		{"only the slot", found{nil, nil, slot()}, "pg_drop_replication_slot('s')", "pg_drop_replication_slot('s')"},
		{"no row", found{nil, publication, slot()}, "walrelay slot adopt", "walrelay slot adopt"},

		{"interrupted before the publication", found{row(checkpoint.Creating), nil, nil}, created, created},
		{"interrupted before the slot", found{row(checkpoint.Creating), publication, nil}, created, created},
		{"interrupted after the slot", found{row(checkpoint.Creating), publication, slot()}, "walrelay init", redone},
		{"interrupted, publication dropped", found{row(checkpoint.Creating), nil, slot()}, "walrelay init", redone},

		{"slot gone", found{row(checkpoint.Ready), publication, nil}, "walrelay repair", "walrelay repair"},
		{"publication gone", found{row(checkpoint.Ready), nil, slot()}, "walrelay repair", "walrelay repair"},
		{"only the row", found{row(checkpoint.Clean), nil, nil}, "walrelay repair", "walrelay repair"},

		{"restored dump", found{foreign, publication, nil}, "DELETE FROM walrelay.checkpoint", "DELETE FROM walrelay.checkpoint"},
		{"upgraded server", found{foreign, publication, slot()}, "walrelay slot adopt", "walrelay slot adopt"},

		{"slot lost", found{row(checkpoint.Ready), publication, slot(func(s *Slot) { s.WALStatus = "lost" })},
			"walrelay repair", "walrelay repair"},
		{"slot of another database", found{nil, nil, slot(func(s *Slot) { s.Database = "other" })},
			"database other", "database other"},
		{"slot being made", found{row(checkpoint.Creating), publication, slot(func(s *Slot) { s.ConfirmedFlushLSN = "" })},
			"still being made", "still being made"},
	}
	for _, test := range tests {
		for _, mode := range []struct {
			name string
			init bool
			want string
		}{{"run", false, test.run}, {"init", true, test.init}} {
			t.Run(test.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				p, err := test.found.decide(server, "s", "p", mode.init)
				got := []string{keep: kept, create: created, redo: redone}[p]
				if err != nil {
					got = err.Error()
				}
				if wantError := !strings.Contains("keep create redo", mode.want); wantError != (err != nil) || !strings.Contains(got, mode.want) {
					t.Errorf("got %q, want %q", got, mode.want)
				}
			})
		}
	}
}
