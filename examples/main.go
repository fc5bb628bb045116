package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest"
)

func main() {
	only := flag.String("only", "", "run a single `example`: "+strings.Join(names(), ", "))
	kills := flag.Int("kills", 9, "how many `times` something is killed in each example")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, *only, *kills)
	if err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// run runs the examples one after the other and reports how many failed.
func run(ctx context.Context, only string, kills int) (failed int, err error) {
	s, err := start(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	passed, skipped := 0, 0
	for _, e := range examples {
		if only != "" && e.name != only || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		summary, err := s.try(ctx, e, kills)
		took := time.Since(began).Round(time.Second)
		switch {
		case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "":
			skipped++
			fmt.Printf("%-8s SKIPPED: %v\n", e.name, err)
		case err != nil:
			failed++
			fmt.Printf("%-8s FAILED in %v: %v\n", e.name, took, err)
		default:
			passed++
			fmt.Printf("%-8s ok in %v: %s\n", e.name, took, summary)
		}
	}
	line := fmt.Sprintf("examples: %d passed, %d failed", passed, failed)
	if skipped > 0 {
		line += fmt.Sprintf(", %d skipped", skipped)
	}
	if passed+failed+skipped == 0 {
		return 0, fmt.Errorf("no example ran; -only takes one of %s", strings.Join(names(), ", "))
	}
	fmt.Println(line)
	return failed, ctx.Err()
}

// stage is what all examples share.
type stage struct {
	dir      string // temporary: the binary, logs
	root     string // of the examples
	postgres *pgtest.Server
}

// start starts the servers and builds walrelay. The caller must close the stage.
func start(ctx context.Context) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.root, err = filepath.Abs("examples"); err != nil {
		return s, err
	}
	if _, err := os.Stat(filepath.Join(s.root, "doc.go")); err != nil {
		return s, errors.New("run it in the root of the repository: go run ./examples")
	}
	if s.dir, err = os.MkdirTemp("", "walrelay-examples-"); err != nil {
		return s, err
	}
	if err := command(ctx, s.root, "go", "build", "-o", s.binary(), "../cmd/walrelay"); err != nil {
		return s, err
	}
	s.postgres, err = pgtest.Launch(ctx, pgtest.Options{Progress: progress})
	return s, err
}

// progress tells a person what takes long: a first download.
func progress(line string) { fmt.Println(line) }

func (s *stage) binary() string { return filepath.Join(s.dir, "walrelay") }

func (s *stage) close() error {
	var errs []error
	if s.postgres != nil {
		errs = append(errs, s.postgres.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// command runs a command to its end; its output is in the error.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
