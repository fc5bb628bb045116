package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// summary is the last line of a run.
type summary struct {
	Cycles      int     `json:"cycles"`
	Events      int     `json:"events"`
	Lost        int     `json:"lost"`
	Reordered   int     `json:"reordered"`
	Duplicated  int     `json:"duplicated"`
	MaxTakeover float64 `json:"max_takeover_s"`
	Seed        uint64  `json:"seed"` // of the last round
	failed      int     // rounds
}

func (s summary) clean() bool { return s.Lost+s.Reordered+s.Duplicated+s.failed == 0 }

// outcome is what the result file says of a round.
type outcome struct {
	Commit string `json:"commit"` // the last that changed the program; "-modified" when the working copy differs from it
	Date   string `json:"date"`
	Seed   uint64 `json:"seed"`
	// Cycles that were survived.
	Cycles     int `json:"cycles"`
	Events     int `json:"events"`
	Lost       int `json:"lost"`
	Reordered  int `json:"reordered"`
	Duplicated int `json:"duplicated"`
	// Foreign are records of events that were never committed.
	Foreign      int            `json:"foreign"`
	MaxTakeover  float64        `json:"max_takeover_s"`
	Seconds      float64        `json:"seconds"`
	Slowest      float64        `json:"slowest_cycle_s"`
	Faults       map[string]int `json:"faults"`
	Transactions map[string]int `json:"transactions"`
	// Failed is why the round did not end well.
	Failed string `json:"failed,omitempty"`
}

func (o outcome) clean() bool { return o.Lost+o.Reordered+o.Duplicated == 0 }

// entry is a round in the result file.
type entry struct {
	ground
	outcome
}

// results is the result file. Without a path it is forgotten at the end.
type results struct {
	path    string
	entries []entry
}

func (r *results) load() error {
	if r.path == "" {
		return nil
	}
	text, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r.entries = nil
		err = json.Unmarshal(text, &r.entries)
	}
	if err != nil {
		return fmt.Errorf("read the results so far: %w", err)
	}
	return nil
}

func (r *results) count() int { return len(r.entries) }

// add adds a round. The file is read again, since another run may have added to it.
func (r *results) add(o outcome, g ground) error {
	if err := r.load(); err != nil {
		return err
	}
	r.entries = append(r.entries, entry{g, o})
	if r.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.entries, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(r.path+".new", r.path)
}

// anyCommit counts all rounds.
const anyCommit = "any"

// sum adds the rounds of a commit up.
func (r *results) sum(commit string) (s summary) {
	for _, e := range r.entries {
		if commit != anyCommit && e.Commit != commit {
			continue
		}
		s.Cycles += e.Cycles
		s.Events += e.Events
		s.Lost += e.Lost
		s.Reordered += e.Reordered
		s.Duplicated += e.Duplicated
		s.MaxTakeover = max(s.MaxTakeover, e.MaxTakeover)
		s.Seed = e.Seed
		if e.Failed != "" {
			s.failed++
		}
	}
	return s
}

// program are the files that make the program.
var program = []string{"--", "*.go", "*.sql", "go.mod", "go.sum"}

// commit is the last commit that has changed the program.
func commit(ctx context.Context) string {
	hash, err := exec.CommandContext(ctx, "git", append([]string{"log", "-1", "--format=%H"}, program...)...).Output()
	if err != nil {
		return "unknown"
	}
	text := strings.TrimSpace(string(hash))
	changes, err := exec.CommandContext(ctx, "git", append([]string{"status", "--porcelain"}, program...)...).Output()
	if err != nil || len(changes) > 0 {
		text += "-modified"
	}
	return text
}
