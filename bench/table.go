package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table is a section in Markdown: medians, and smallest and largest where they differ by more than a tenth.
func (p part) table(s *Section) string {
	columns := p.used(s)
	var b strings.Builder
	b.WriteString("| workload | program |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, l := range s.Lines {
		fmt.Fprintf(&b, "| %s | %s |", l.Workload, l.Program)
		for _, c := range columns {
			b.WriteString(" " + cell(s, l, c) + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// used are the columns that a line has a figure for.
func (p part) used(s *Section) []column {
	var used []column
	for _, c := range p.columns {
		for _, l := range s.Lines {
			if cell(s, l, c) != "" {
				used = append(used, c)
				break
			}
		}
	}
	return used
}

func cell(s *Section, l Line, c column) string {
	if c.against != "" {
		if base := s.median(l.Workload, c.against, c.figure); base > 0 && l.Program != c.against {
			return fmt.Sprintf("%.2f", l.Figures[c.figure].Median/base)
		}
		return ""
	}
	f, ok := l.Figures[c.figure]
	switch {
	case !ok:
		return ""
	case f.Max-f.Min <= 0.1*math.Abs(f.Median):
		return number(f.Median)
	}
	return fmt.Sprintf("%s (%s-%s)", number(f.Median), number(f.Min), number(f.Max))
}

// number writes a figure with three digits or more.
func number(x float64) string {
	switch size := math.Abs(x); {
	case size >= 10_000:
		text := strconv.FormatFloat(x, 'f', 0, 64)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case size >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// Tables puts the tables of a report where a document has <!-- bench:NAME --> and <!-- end --> around them, with the date,
// the machine and the commit above each.
func Tables(document string, r *Report) (string, error) {
	var b strings.Builder
	rest := document
	for {
		before, after, found := strings.Cut(rest, "<!-- bench:")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(after, " -->")
		_, rest, ok = cutIf(ok, after, "<!-- end -->")
		s, there := r.Parts[name]
		if !ok || !there {
			return "", fmt.Errorf("table %q: no end, or no such part in the result file", name)
		}
		for _, p := range parts {
			if p.name == name {
				fmt.Fprintf(&b, "<!-- bench:%s -->\n%s\n\n%s<!-- end -->", name, s.caption(r.Machine), p.table(s))
			}
		}
	}
}

func cutIf(ok bool, text, separator string) (before, after string, found bool) {
	before, after, found = strings.Cut(text, separator)
	return before, after, ok && found
}

// caption says when, on what and from what the lines were measured.
func (s *Section) caption(machine string) string {
	var dates, commits []string
	for _, l := range s.Lines {
		date, _, _ := strings.Cut(l.Date, "T")
		dates, commits = append(dates, date), append(commits, l.Commit)
	}
	slices.Sort(dates)
	slices.Sort(commits)
	return fmt.Sprintf("*%s; %s; commit %s*", strings.Join(slices.Compact(dates), ", "), machine, strings.Join(slices.Compact(commits), ", "))
}
