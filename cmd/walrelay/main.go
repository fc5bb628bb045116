package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the release: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p := program{out: os.Stdout, err: os.Stderr, environ: os.Environ(), signals: signals, exit: os.Exit}
	os.Exit(p.execute(context.Background(), os.Args[1:]))
}

// program is what surrounds a command.
type program struct {
	out, err io.Writer
	environ  []string
	signals  <-chan os.Signal
	exit     func(code int) // for a second signal, which waits for nothing
	flags    settingFlags
}

// print writes a report: one JSON line for machines, or the text for a person.
func (p *program) print(asJSON bool, report any, text func() error) error {
	if asJSON {
		return json.NewEncoder(p.out).Encode(report)
	}
	return text()
}

// execute runs a command line and returns the exit code.
func (p *program) execute(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return p.report(root.ExecuteContext(ctx))
}
