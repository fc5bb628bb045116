package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/walrelay/walrelay/internal/kafkatest"
)

// stage is what the runs need: the servers, the programs, and a folder for logs.
type stage struct {
	dir    string
	out    io.Writer // lines for a person
	server *postgres
	kafka  *kafkatest.Cluster
	client *kgo.Client // for questions to Kafka

	walrelay, polling string // the programs' paths

	made     int                 // databases, slots and folders so far
	bind     func(pid int) error // to the relays' processors; nil: they have all
	spare    int                 // runs that may still be repeated
	profiles string              // folder for what perf records; empty: nothing is
}

// newStage builds the programs and starts the servers. end stops them, and keeps the logs when the error it is given or one
// of its own is not nil.
func newStage(ctx context.Context, postgresBin, profiles string, out io.Writer) (s *stage, end func(error) error, err error) {
	dir, err := os.MkdirTemp("", "walrelay-bench-")
	if err != nil {
		return nil, nil, err
	}
	s = &stage{dir: dir, out: out, profiles: profiles}
	end = func(err error) error {
		err = errors.Join(err, s.close(), os.RemoveAll(dataFolder(dir)))
		if err == nil {
			return os.RemoveAll(dir)
		}
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	if err := s.open(ctx, postgresBin); err != nil {
		return nil, nil, end(err)
	}
	return s, end, nil
}

func (s *stage) open(ctx context.Context, postgresBin string) (err error) {
	if err := os.Chmod(s.dir, 0o755); err != nil { // the account postgres works below it
		return err
	}
	if s.server, err = startPostgres(ctx, postgresBin, s.dir); err != nil {
		return err
	}
	s.kafka, err = kafkatest.Launch(ctx, kafkatest.Options{Nodes: 1, HeapMB: 1024, Progress: s.say})
	if err != nil {
		return err
	}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...)); err != nil {
		return err
	}
	// A profile needs the symbols, which users do not get.
	if s.walrelay, err = build(ctx, s.dir, "cmd/walrelay", s.profiles != ""); err != nil {
		return err
	}
	s.polling, err = build(ctx, s.dir, "bench/polling", false)
	return err
}

func (s *stage) close() error {
	var errs []error
	if s.client != nil {
		s.client.Close()
	}
	if s.kafka != nil {
		errs = append(errs, s.kafka.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.stop())
	}
	return errors.Join(errs...)
}

// say writes a line for a person.
func (s *stage) say(line string) { fmt.Fprintln(s.out, line) }

// folder makes a new folder for the files of one run.
func (s *stage) folder() (string, error) {
	s.made++
	path := filepath.Join(s.dir, fmt.Sprintf("run-%d", s.made))
	return path, os.Mkdir(path, 0o755)
}

// build builds a program of this module as users get it, but for the symbols on request, and returns its path.
func build(ctx context.Context, dir, program string, symbols bool) (string, error) {
	binary := filepath.Join(dir, filepath.Base(program))
	flags := "-s -w"
	if symbols {
		flags = ""
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", flags, "-o", binary, "github.com/walrelay/walrelay/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return binary, nil
}

// used is the CPU time of the machine and of our parts of it.
type used struct{ machine, postgres, broker, self float64 }

func (s *stage) used() (used, error) {
	machine, err := busy()
	own, reaped := cpu(os.Getpid())
	broker, _ := cpu(s.kafka.Pid(1))
	return used{machine, familyCPU(s.server.process.Pid()), broker, own + reaped}, err
}

// other is what the rest of the machine has used since before, while the process under test used ours.
func (u used) other(before used, ours float64) float64 {
	return u.machine - before.machine - (u.postgres - before.postgres) - (u.broker - before.broker) - (u.self - before.self) - ours
}
