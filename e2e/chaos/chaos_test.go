package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/relaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestChaos is a small round, on servers that its seed chooses. CYCLES and SEED are those of make chaos.
func TestChaos(t *testing.T) {
	kafkatest.Require(t)
	number := func(name string, otherwise uint64) uint64 {
		if os.Getenv(name) == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	binary := filepath.Join(t.TempDir(), "walrelay")
	if err := relaytest.Build(t.Context(), binary); err != nil {
		t.Fatal(err)
	}
	seed := number("SEED", uint64(time.Now().UnixNano()))
	r := round{
		binary: binary, out: t.Output(), ground: grounds[seed%uint64(len(grounds))],
		outcome: outcome{Seed: seed, Cycles: int(number("CYCLES", 6))},
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.Events < 100 || r.Cycles == 0 || r.Transactions["prepared"]+r.Transactions["copy"] == 0 {
		t.Errorf("%d cycles with %d events, transactions %v: too little to prove something", r.Cycles, r.Events, r.Transactions)
	}
}

// A seed is worth something only if it gives the same plan.
func TestPlan(t *testing.T) {
	t.Parallel()
	plans := func(seed uint64) (list []string) {
		rng := rand.New(rand.NewPCG(seed, math.MaxUint64))
		for range 2000 {
			list = append(list, describe(plan(rng, 3)))
		}
		return list
	}
	if !slices.Equal(plans(1), plans(1)) || slices.Equal(plans(1), plans(2)) {
		t.Error("the plan does not follow from the seed alone")
	}
	rng := rand.New(rand.NewPCG(3, math.MaxUint64))
	times := map[string]int{}
	for range 2000 {
		subjects := map[string]bool{}
		for _, s := range plan(rng, 1) {
			for word := range strings.FieldsSeq(s.subject) {
				if subjects[word] {
					t.Fatalf("two strikes at %s in one cycle", word)
				}
				subjects[word] = true
			}
			times[s.name]++
			if !slices.Equal(s.brokers, []int32{1}) {
				t.Fatalf("brokers %v of one", s.brokers)
			}
		}
	}
	for _, f := range faults {
		if times[f.name] == 0 {
			t.Errorf("%s never happens", f.name)
		}
	}
}

// A run goes on where the one before has stopped, and rounds of another commit do not count.
func TestResults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "result.json")
	add := func(o outcome) {
		before := results{path: path}
		if err := before.add(o, grounds[1]); err != nil {
			t.Fatal(err)
		}
	}
	add(outcome{Commit: "a", Cycles: 25, Events: 1000, MaxTakeover: 0.5, Seed: 1})
	add(outcome{Commit: "b", Cycles: 10, Events: 10, Lost: 1, MaxTakeover: 3, Seed: 2, Failed: "lost 1"})
	add(outcome{Commit: "a", Cycles: 5, Events: 200, MaxTakeover: 0.25, Seed: 3})
	r := results{path: path}
	if err := r.load(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.sum("a"), (summary{Cycles: 30, Events: 1200, MaxTakeover: 0.5, Seed: 3}); got != want || !got.clean() {
		t.Errorf("of one commit %+v, want %+v", got, want)
	}
	if got, want := r.sum(anyCommit), (summary{Cycles: 40, Events: 1210, Lost: 1, MaxTakeover: 3, Seed: 3, failed: 1}); got != want || got.clean() {
		t.Errorf("of any %+v, want %+v", got, want)
	}
	if (summary{Cycles: 1, failed: 1}).clean() {
		t.Error("a round that did not come to its end counts as clean")
	}
	if r.entries[0].Postgres != grounds[1].Postgres {
		t.Errorf("the servers of a round are %+v", r.entries[0].ground)
	}
}

// Time in which the machine stood still is no reason to lose patience.
func TestStandstill(t *testing.T) {
	t.Parallel()
	var s standstill
	ctx, cancel := s.within(t.Context(), 10*time.Second)
	defer cancel()
	for range 9 {
		s.passed(time.Hour)
	}
	if ctx.Err() != nil || s.take() != time.Hour-tick {
		t.Errorf("after nine standstills: %v, noticed %v", ctx.Err(), s.take())
	}
	s.passed(time.Second)
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Errorf("after ten seconds: %v", context.Cause(ctx))
	}
}
