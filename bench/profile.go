package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// profile lets perf record where a process spends its CPU time until end is called or the process ends. It samples by the
// clock, since virtual machines often have no hardware counters.
func (s *stage) profile(name string, pid int) (end func(), err error) {
	if s.profiles == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(s.profiles, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command("perf", "record", "--quiet", "--event", "cpu-clock", "--freq", "999", "--call-graph", "fp",
		"--output", filepath.Join(s.profiles, name+".perf"), "--pid", strconv.Itoa(pid))
	cmd.Stderr = s.out
	recorder, err := process.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("profile with perf (package linux-perf): %w", err)
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it has ended by itself when the relay has
		<-recorder.Done()
	}, nil
}
