package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// ticks is USER_HZ, the unit of the times in /proc, which Linux has fixed at 100 a second for programs.
const ticks = 100

// busy is the CPU time in seconds that the machine has spent since it started, on whatever, with what a hypervisor gave to
// others while we wanted it.
func busy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the machine's CPU time: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(first) // cpu user nice system idle iowait irq softirq steal
	if len(f) < 9 {
		return 0, fmt.Errorf("read the machine's CPU time: unknown format %q", first)
	}
	return ticked(f, 1, 2, 3, 6, 7, 8), nil
}

// cpu is the CPU time in seconds that a process has used; own without and reaped of the children it has waited for. Both
// are zero for a process that has ended.
func cpu(pid int) (own, reaped float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The second field is the command in brackets and may hold blanks: number the fields after it, from state, 3, on.
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	return ticked(f, 14-3, 15-3), ticked(f, 16-3, 17-3)
}

// ticked adds fields that count ticks, in seconds.
func ticked(fields []string, which ...int) float64 {
	sum := 0.0
	for _, i := range which {
		n, _ := strconv.ParseFloat(fields[i], 64)
		sum += n
	}
	return sum / ticks
}

// familyCPU is the CPU time of a process, of the children it has waited for and of those that run.
func familyCPU(pid int) float64 {
	own, reaped := cpu(pid)
	sum := own + reaped
	children, _ := process.Children(pid)
	for _, child := range children {
		own, _ := cpu(child)
		sum += own
	}
	return sum
}

// preciseCPU is the CPU time of a process in seconds, to the nanosecond, which cpu rounds to hundredths. Threads that have
// ended are not in it.
func preciseCPU(pid int) (float64, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("read the CPU time of process %d: no schedstat of its threads", pid)
	}
	sum := 0.0
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // has just ended
		}
		spent, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseFloat(spent, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		sum += n
	}
	return sum / 1e9, nil
}

// vmHWM is the largest resident memory that a process has had, vmRSS what it has now, in MiB.
func vmHWM(pid int) (float64, error) { return memory(pid, "VmHWM:") }
func vmRSS(pid int) (float64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
			}
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: no %s", pid, name)
}
