package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

var errPortTaken = errors.New("another process took the port")

func freePort() (int, error) {
	ports, err := process.FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// startOnFreePort chooses the port. A port that was free may be taken by others before postgres has it: try anew.
func (s *Server) startOnFreePort(ctx context.Context) error {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		err = s.Start(ctx)
		if !errors.Is(err, errPortTaken) || try == 5 {
			return err
		}
	}
}

// Start starts a server that was stopped or killed, on the same port and data, and waits until it answers. With ctx
// ended before that, the server is killed. A server that runs is left as it is.
func (s *Server) Start(ctx context.Context) error { return s.start(ctx) }

// StartForUpgrade is Start in the mode in which pg_upgrade starts a server (postgres -b): superusers only, no autovacuum,
// and the functions that it asks its questions with.
func (s *Server) StartForUpgrade(ctx context.Context) error { return s.start(ctx, "-b") }

func (s *Server) start(ctx context.Context, args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	settings := maps.Clone(s.settings)
	settings["port"] = strconv.Itoa(s.port)
	if err := writeSettings(s.dir, settings, s.account); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	defer log.Close() // the child has its own
	if err := s.account.own(s.Log()); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	before, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	cmd := exec.Command(filepath.Join(s.bin, "bin", "postgres"), append([]string{"-D", s.dir}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	s.account.run(cmd)
	started, err := process.Start(cmd)
	if err != nil {
		return err
	}
	s.process = started
	if err := s.awaitReady(ctx); err != nil {
		_ = s.kill()
		said := readFrom(log, before)
		if strings.Contains(said, "could not bind") {
			return fmt.Errorf("start postgres on port %d: %w", s.port, errPortTaken)
		}
		return fmt.Errorf("start postgres: %w; its log:\n%s", err, said)
	}
	return nil
}

// readFrom is the end of the log, at most 4 KiB, from an offset on.
func readFrom(log *os.File, offset int64) string {
	end, err := log.Seek(0, 2)
	if err != nil {
		return ""
	}
	text := make([]byte, min(end-offset, 4096))
	n, _ := log.ReadAt(text, end-int64(len(text)))
	return string(text[:n])
}

// awaitReady waits until the server accepts connections or has ended.
func (s *Server) awaitReady(ctx context.Context) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.Done():
			return fmt.Errorf("postgres ended: %v", s.process.Err())
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %v)", context.Cause(ctx), err)
		case <-poll.C:
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Stop shuts the server down and waits for its end: mode "smart" waits for clients, "fast" disconnects them (but waits
// for replication receivers to get all WAL), "immediate" is a crash that is tidy about processes. When ctx ends first,
// the shutdown goes on and Stop returns the cause.
func (s *Server) Stop(ctx context.Context, mode string) error {
	signals := map[string]syscall.Signal{"smart": syscall.SIGTERM, "fast": syscall.SIGINT, "immediate": syscall.SIGQUIT}
	signal, known := signals[mode]
	if !known {
		return fmt.Errorf("stop postgres: unknown mode %q: smart, fast or immediate", mode)
	}
	s.mu.Lock()
	running, p := s.running(), s.process
	s.mu.Unlock()
	if !running {
		return nil
	}
	if err := p.Stop(ctx, signal); err != nil {
		return fmt.Errorf("stop postgres (%s): %w", mode, err)
	}
	return nil
}

// Kill ends the postmaster and all its children with SIGKILL at once, as a power failure would, and waits until they
// are gone. The server can be started again.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	if !s.running() {
		return nil
	}
	// Frozen first, so that it starts no child behind our back and reacts to no child's death.
	if err := process.Freeze(s.process.Pid()); err != nil && s.running() {
		return fmt.Errorf("kill postgres: %w", err)
	}
	children, err := process.Children(s.process.Pid())
	if err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // an error: it has ended
	}
	if err := s.process.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return process.AwaitGone(ctx, children)
}

// Pause freezes (SIGSTOP) one process of the server by its id, such as a walsender's from pg_stat_replication; 0 freezes
// the whole server. When it returns, they do not run.
func (s *Server) Pause(pid int) error { return s.each(pid, process.Freeze) }

// Continue ends a Pause of the same pid.
func (s *Server) Continue(pid int) error { return s.each(pid, process.Thaw) }

// each calls f with pid, or if that is 0 with the postmaster and then its children: when freezing, their list is complete.
func (s *Server) each(pid int, f func(pid int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return errors.New("pause or continue postgres: it does not run")
	}
	if pid != 0 {
		return f(pid)
	}
	if err := f(s.process.Pid()); err != nil {
		return err
	}
	children, err := process.Children(s.process.Pid())
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := f(pid); err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}

// CopyData copies the data folder of a stopped or killed server to dir, which must be absent or empty. Launch with Dir
// set to the copy runs it as a second server with the same history and system identifier.
func (s *Server) CopyData(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return errors.New("copy data folder: the server runs, stop it first")
	}
	if err := copyFolder(s.dir, dir, s.account); err != nil {
		return fmt.Errorf("copy data folder: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, "postmaster.pid")); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("copy data folder: %w", err)
	}
	return nil
}

// Close ends the server and deletes its data folder if that was a temporary one.
func (s *Server) Close() error {
	err := s.Kill()
	s.removeDir()
	return err
}
