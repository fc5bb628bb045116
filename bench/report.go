package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is the result file: what each part has shown when it was last run.
type Report struct {
	Machine string              `json:"machine"` // processors and memory
	Parts   map[string]*Section `json:"parts"`
}

// Section are the lines of one part. A run replaces those that it measures again and keeps the others, so that a part may
// be run in pieces.
type Section struct {
	Lines []Line `json:"lines"`
}

// Line is what a program has shown at a workload.
type Line struct {
	Workload string            `json:"workload"`
	Program  string            `json:"program"`
	Date     string            `json:"date"`   // RFC 3339, of the last run
	Commit   string            `json:"commit"` // of the source, "-dirty" when it was changed
	Scale    float64           `json:"scale"`  // of the number of rows, 1 as listed
	Runs     int               `json:"runs"`
	Figures  map[string]Figure `json:"figures"`

	runs []figures
}

// line finds the line of a workload and a program, or begins it.
func (s *Section) line(workload, program string) *Line {
	i := slices.IndexFunc(s.Lines, func(l Line) bool { return l.Workload == workload && l.Program == program })
	if i < 0 {
		i = len(s.Lines)
		s.Lines = append(s.Lines, Line{Workload: workload, Program: program})
	}
	return &s.Lines[i]
}

// add takes the figures of one more run.
func (s *Section) add(workload, program string, run figures) {
	l := s.line(workload, program)
	l.runs = append(l.runs, run)
	l.Runs, l.Figures = len(l.runs), summarise(l.runs)
}

// median of a figure of a line, 0 when it is not there.
func (s *Section) median(workload, program, figure string) float64 {
	for _, l := range s.Lines {
		if l.Workload == workload && l.Program == program {
			return l.Figures[figure].Median
		}
	}
	return 0
}

// ReadReport reads a result file; one that is not there is empty.
func ReadReport(path string) (*Report, error) {
	r := &Report{Parts: map[string]*Section{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read result file: %w", err)
	}
	return r, nil
}

// Write replaces a result file.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write result file: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// stamp says of the lines of a section when, from what and at which scale they were measured.
func (s *Section) stamp(scale float64) {
	for i := range s.Lines {
		s.Lines[i].Date, s.Lines[i].Commit, s.Lines[i].Scale = time.Now().UTC().Format(time.RFC3339), commit(), scale
	}
}

// merge puts a part's new lines into the report.
func (r *Report) merge(part string, fresh *Section) *Section {
	s := r.Parts[part]
	if s == nil {
		s = &Section{}
		r.Parts[part] = s
	}
	for _, l := range fresh.Lines {
		*s.line(l.Workload, l.Program) = l
	}
	r.Machine = machine()
	return s
}

// commit is that of the working directory, "unknown" outside of a clone.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine describes what everything ran on.
func machine() string {
	model, memory := "unknown processor", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		model = field(string(text), "model name")
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscan(field(string(text), "MemTotal"), &kib); err == nil {
			memory = fmt.Sprintf(", %d GiB", (kib+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%d × %s%s", runtime.NumCPU(), model, memory)
}

// field is the value of a "name : value" line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
