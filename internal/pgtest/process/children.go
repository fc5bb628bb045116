package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Children lists the direct children of pid that have not ended. They are read from /proc where it exists, else from ps.
func Children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return childrenByPs(pid)
	}
	var children []int
	for _, path := range stats {
		s, err := readStat(path)
		if err == nil && s.parent == pid && !s.dead { // an error: it has just ended
			children = append(children, s.pid)
		}
	}
	return children, nil
}

// stat is what is needed of /proc/<pid>/stat.
type stat struct {
	pid, parent int
	dead        bool // ended, but nobody has waited for it
	stopped     bool // by SIGSTOP
}

func readStat(path string) (stat, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	// "pid (command) state ppid ...": the command may hold blanks and brackets.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 2 {
		return stat{}, fmt.Errorf("read %s: unknown format", path)
	}
	pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
	if err != nil {
		return stat{}, fmt.Errorf("read %s: %w", path, err)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, fmt.Errorf("read %s: %w", path, err)
	}
	state := fields[0]
	return stat{pid: pid, parent: parent, dead: state == "Z" || state == "X", stopped: state == "T"}, nil
}

func childrenByPs(pid int) ([]int, error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list the children of process %d: %w", pid, err)
	}
	var children []int
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var child, parent int
		if _, err := fmt.Sscan(lines.Text(), &child, &parent); err == nil && parent == pid {
			children = append(children, child)
		}
	}
	return children, nil
}

// AwaitGone waits until none of the processes, which need not be our children, runs any more.
func AwaitGone(ctx context.Context, pids []int) error {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for _, pid := range pids {
		for alive(pid) {
			select {
			case <-poll.C:
			case <-ctx.Done():
				return fmt.Errorf("wait for the end of process %d: %w", pid, context.Cause(ctx))
			}
		}
	}
	return nil
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	s, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !s.dead // without /proc: the signal's answer decides
}
