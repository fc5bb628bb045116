package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/internal/relaytest"
)

func main() {
	var o options
	flag.IntVar(&o.cycles, "cycles", 25, "cycles in all; those of the result file count")
	flag.IntVar(&o.round, "round", 25, "cycles of one round at most")
	flag.Uint64Var(&o.seed, "seed", 0, "repeat the round of this seed, which is not written to the result file")
	flag.StringVar(&o.only.Postgres, "postgres", "", "version of PostgreSQL: 14 to 18; empty: 18 and 15 in turn")
	flag.IntVar(&o.only.Brokers, "brokers", 0, "brokers: 1 or 3; 0: both in turn")
	flag.StringVar(&o.result, "result", "", "file that the rounds are added to")
	flag.StringVar(&o.commit, "commit", "", "count the rounds of this commit in the result file, or of any; empty: that of the source")
	flag.BoolVar(&o.keep, "keep", false, "keep logs and data of each round")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sum, err := o.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	line, marshalErr := json.Marshal(sum)
	if marshalErr != nil {
		panic(marshalErr) // numbers only
	}
	fmt.Println(string(line))
	if err != nil || !sum.clean() {
		os.Exit(1)
	}
}

type options struct {
	cycles, round int
	seed          uint64
	only          ground
	result        string
	commit        string
	keep          bool
}

// errFailed ends a run whose round has failed; it is said already.
var errFailed = errors.New("a round has failed")

// run makes rounds until there are as many cycles as asked for. It stops at the first that fails.
func (o options) run(ctx context.Context) (summary, error) {
	record := results{path: o.result}
	if err := record.load(); err != nil {
		return summary{}, err
	}
	source := commit(ctx)
	if o.commit == "" {
		o.commit = source
	}
	bin, err := os.MkdirTemp("", "walrelay-chaos-bin-")
	if err != nil {
		return summary{}, err
	}
	defer os.RemoveAll(bin)
	binary := filepath.Join(bin, "walrelay")
	if err := relaytest.Build(ctx, binary); err != nil {
		return summary{}, err
	}
	for {
		sum := record.sum(o.commit)
		left := o.cycles - sum.Cycles
		if left <= 0 {
			return sum, nil
		}
		r := round{
			binary: binary, keep: o.keep, out: os.Stdout, ground: grounds[record.count()%len(grounds)].but(o.only),
			outcome: outcome{Commit: source, Date: time.Now().UTC().Format(time.RFC3339), Seed: o.seed, Cycles: min(left, o.round)},
		}
		if o.seed == 0 {
			r.Seed = uint64(time.Now().UnixNano())
		}
		err := r.run(ctx)
		if ctx.Err() != nil {
			return record.sum(o.commit), fmt.Errorf("interrupted; the round under way does not count")
		}
		if addErr := record.add(r.outcome, r.ground); addErr != nil {
			return record.sum(o.commit), addErr
		}
		if err != nil {
			return record.sum(o.commit), errFailed
		}
	}
}
