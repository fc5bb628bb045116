package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/bench"
)

func main() {
	var o bench.QuickOptions
	flag.StringVar(&o.PostgresBin, "postgres", bench.PostgresBin, "folder of PostgreSQL's programs, pg_recvlogical among them")
	flag.IntVar(&o.Rows100, "rows100", 1_000_000, "rows inserted 100 in a transaction")
	flag.IntVar(&o.Rows1, "rows1", 300_000, "rows inserted one in a transaction")
	flag.IntVar(&o.Runs, "runs", 3, "runs of each program on each of the two")
	flag.IntVar(&o.Rate, "rate", 1000, "transactions a second for the latency")
	flag.DurationVar(&o.Load, "load", 20*time.Second, "how long they last")
	flag.DurationVar(&o.Idle, "idle", 20*time.Second, "how long the idle relay is watched")
	flag.DurationVar(&o.Warm, "warm", 15*time.Second, "how long the broker is kept busy before anything is measured")
	flag.DurationVar(&o.WarmLoop, "warm-loop", 60*time.Second, "how long it is kept busy with an open loop before latencies are measured")
	flag.StringVar(&o.Profile, "profile", "", "folder for perf's records of the relay's drains; costs CPU itself")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench.Quick(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
