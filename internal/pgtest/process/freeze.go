package process

import (
	"fmt"
	"syscall"
	"time"
)

// Freeze stops the process pid, which need not be our child, with SIGSTOP and returns when it does not run any more: the
// signal alone takes effect a moment later. Where there is no /proc, it does not wait.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze process %d: %w", pid, err)
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		s, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || s.stopped || s.dead {
			return nil
		}
		<-poll.C
	}
}

// Thaw ends a Freeze.
func Thaw(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw process %d: %w", pid, err)
	}
	return nil
}
