package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/bench"
)

func main() {
	var o bench.Options
	var chosen, programs, rates, result string
	flag.StringVar(&chosen, "parts", "", "what to measure, separated by commas; empty: all of it, which takes hours\n"+list())
	flag.StringVar(&programs, "programs", "", "who takes part, by the begin of the name, separated by commas; empty: everybody")
	flag.StringVar(&result, "result", "bench/result.json", "file whose sections of these parts are replaced")
	flag.StringVar(&o.PostgresBin, "postgres", bench.PostgresBin, "folder of PostgreSQL's programs, pg_recvlogical among them")
	flag.IntVar(&o.Runs, "runs", 3, "runs of each program at each workload")
	flag.StringVar(&rates, "rates", "100,1000,10000", "rows a second of the open loops")
	flag.Float64Var(&o.Scale, "scale", 1, "of the number of rows")
	flag.IntVar(&o.Spare, "spare", 4, "disturbed runs that each part may repeat")
	flag.DurationVar(&o.Load, "load", 20*time.Second, "how long an open loop lasts")
	flag.DurationVar(&o.Idle, "idle", 20*time.Second, "how long the idle relay is watched")
	flag.DurationVar(&o.Warm, "warm", 15*time.Second, "how long the broker is kept busy before anything is measured")
	flag.DurationVar(&o.WarmLoop, "warm-loop", 90*time.Second, "how long it is kept busy with an open loop before latencies are measured")
	flag.DurationVar(&o.Outage, "outage", 5*time.Minute, "how long Kafka is away")
	flag.StringVar(&o.Profile, "profile", "", "folder for perf's records of the drains; costs CPU itself")
	flag.Parse()
	o.Parts, o.Programs = split(chosen), split(programs)
	for _, text := range split(rates) {
		rate, err := strconv.Atoi(text)
		if err != nil || rate < 1 {
			fmt.Fprintf(os.Stderr, "-rates: %q is not a number of rows a second\n", text)
			os.Exit(2)
		}
		o.Rates = append(o.Rates, rate)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, result); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o bench.Options, result string) error {
	report, err := bench.ReadReport(result)
	if err != nil {
		return err
	}
	return bench.Measure(ctx, o, report, func() error { return report.Write(result) }, os.Stdout)
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// list explains the parts.
func list() string {
	titles := bench.Parts()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(titles)) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, titles[name])
	}
	return b.String()
}
