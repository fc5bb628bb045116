package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options say what is measured, and how much of it.
type Options struct {
	// PostgresBin is the folder of PostgreSQL's programs.
	PostgresBin string
	// Parts are names of parts; empty: all that need no minutes of their own (see Parts).
	Parts []string
	// Programs are beginnings of the names of the programs that take part; empty: all.
	Programs []string
	// Runs of each program at each workload.
	Runs int
	// Spare bounds how many disturbed runs a part repeats, and so the time that it takes on a busy machine.
	Spare int
	// Scale multiplies the number of rows of the datasets.
	Scale float64
	// Load is how long an open loop lasts, and Idle how long the idle relay is watched before it.
	Load, Idle time.Duration
	// Warm is how long the broker is kept busy first: one that has just been started compiles its code, for which it takes
	// most of a core for about fifteen seconds, and brokers live for weeks.
	Warm time.Duration
	// WarmLoop is how long it is kept busy with an open loop before latencies are measured.
	WarmLoop time.Duration
	// Rates are the rows a second of the open loops.
	Rates []int
	// Outage is how long Kafka is away.
	Outage time.Duration
	// Profile is a folder for what perf records of each drain; empty: none. Profiled figures are not to be published,
	// since recording costs CPU itself.
	Profile string
}

// part is one section of the report.
type part struct {
	name, title string
	columns     []column
	run         func(context.Context, *stage, Options, *Section) error
}

// column is one figure in a table, or with a program in against, how many times it is that program's.
type column struct{ title, figure, against string }

// parts in the order of the report.
var parts = []part{
	{"drains", "Backlog drain by rows in a transaction", drainColumns, drains(rowsInTransaction, nil)},
	{"relays-100", "Backlog drain beside other relays, 100 rows in a transaction", drainColumns, drains(hundred, comparators)},
	{"relays-1", "Backlog drain beside other relays, 1 row in a transaction", drainColumns, drains(single, comparators)},
	{"payloads", "Backlog drain by payload", drainColumns, drains(payloads, nil)},
	{"topics", "Backlog drain by number of topics", drainColumns, drains(manyTopics, nil)},
	{"compression", "Backlog drain by compression of batches", drainColumns, drains(compressions, nil)},
	{"sources", "Backlog drain by source: one table, ten tables, messages", drainColumns, drains(sources, nil)},
	{"latency", "COMMIT to consumer, open loop", latencyColumns, latencies(walrelay)},
	{"relays-latency", "The same of other relays", latencyColumns, latencies(comparators...)},
	{"start", "Start", startColumns, starts},
	{"backlog", "CPU of an event by size of table and of backlog", drainColumns, drains(sizes, nil)},
	{"transaction", "One large transaction", drainColumns, drains(oneTransaction, nil)},
	{"foreign", "Log of other tables", foreignColumns, drains(foreignLog, nil)},
	{"outage", "Kafka away under load", outageColumns, outage},
	{"primary", "An application at half of the rate that saturates the server", primaryColumns, primary},
	{"shapes", "Cost of an insert by shape of the outbox", shapeColumns, shapes},
	{"split", "Several relays over one outbox", splitColumns, split},
}

// Parts are the names of the parts with their titles.
func Parts() map[string]string {
	names := map[string]string{}
	for _, p := range parts {
		names[p.name] = p.title
	}
	return names
}

// Measure runs parts and puts their sections into the report, each as soon as it is complete, when keep is called.
func Measure(ctx context.Context, o Options, r *Report, keep func() error, out io.Writer) (err error) {
	for _, name := range o.Parts {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	s, end, err := newStage(ctx, o.PostgresBin, o.Profile, out)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	if err := s.warm(ctx, o.Warm); err != nil {
		return err
	}
	for _, p := range parts {
		if len(o.Parts) > 0 && !slices.Contains(o.Parts, p.name) {
			continue
		}
		s.say("\n" + p.title + "\n")
		section := &Section{}
		s.spare = o.Spare
		if err := p.run(ctx, s, o, section); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		section.stamp(o.Scale)
		s.say("\n" + p.table(r.merge(p.name, section)))
		if err := keep(); err != nil {
			return err
		}
	}
	return nil
}

// takesPart tells whether the options want a program.
func (o Options) takesPart(p program) bool {
	return len(o.Programs) == 0 || slices.ContainsFunc(o.Programs, func(begin string) bool {
		return strings.HasPrefix(strings.ToLower(p.name), strings.ToLower(begin))
	})
}

// scaled is a number of rows.
func (o Options) scaled(rows int) int { return max(1, int(float64(rows)*o.Scale)) }

// undisturbed makes runs until one is undisturbed, as long as spare runs are left; the least disturbed one counts.
func (s *stage) undisturbed(workload, program string, columns []column, once func() (figures, error)) (best figures, err error) {
	for best == nil || best.disturbed() && s.spare > 0 {
		if best != nil {
			s.spare--
		}
		f, err := once()
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", workload, program, err)
		}
		s.tell(workload, program, columns, f)
		if best == nil || f[otherCPU] < best[otherCPU] {
			best = f
		}
	}
	return best, nil
}

// tell writes what a run has shown.
func (s *stage) tell(workload, program string, columns []column, f figures) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %-22s", workload, program)
	for _, c := range columns {
		if value, ok := f[c.figure]; ok && c.against == "" {
			fmt.Fprintf(&b, "  %s %s", c.title, number(round(value)))
		}
	}
	if f.disturbed() {
		b.WriteString("  disturbed")
	}
	s.say(b.String())
}
