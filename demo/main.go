package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	if spec := os.Getenv(relayVariable); spec != "" {
		os.Exit(relayMain(spec))
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // said already
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the program at once
	os.Exit(show(ctx, o))
}

// options are the command line.
type options struct {
	events   int     // 0: until stopped
	rate     float64 // events a second
	json     bool
	kill     bool
	postgres string // URL; "" starts a server
	kafka    string // HOST:PORT,...; "" starts a broker
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.IntVar(&o.events, "events", 0, "stop after so many `events`; 0 goes on until Ctrl-C")
	flags.Float64Var(&o.rate, "rate", 4, "events a `second`")
	flags.BoolVar(&o.json, "json", false, "end with the summary as one line of JSON")
	flags.BoolVar(&o.kill, "kill", false, "kill the relay now and then (SIGKILL) and start it again")
	flags.StringVar(&o.postgres, "postgres", "", "use the server of this `URL` (wal_level=logical); default: start one")
	flags.StringVar(&o.kafka, "kafka", "", "use the brokers at `HOST:PORT`,...; default: one inside this process")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var problem string
	switch {
	case flags.NArg() > 0:
		problem = fmt.Sprintf("unknown argument %q", strings.Join(flags.Args(), " "))
	case o.events < 0:
		problem = fmt.Sprintf("-events %d: must not be negative", o.events)
	case !(o.rate > 0 && o.rate <= 1000):
		problem = fmt.Sprintf("-rate %v: must be above 0 and at most 1000", o.rate)
	default:
		return o, nil
	}
	fmt.Fprintln(flags.Output(), problem)
	flags.Usage()
	return o, errors.New(problem)
}

// show runs the demo on standard output and returns the exit code.
func show(ctx context.Context, o options) int {
	sc := newScreen(os.Stdout)
	s, err := run(ctx, o, sc)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("stopped before the first event")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	sc.summary(s)
	if o.json {
		line, err := json.Marshal(s)
		if err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
			return 1
		}
		sc.line(string(line))
	}
	if !s.clean() {
		return 1
	}
	return 0
}
