package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/relay"
)

// verifyFlags are what verify can be told.
type verifyFlags struct {
	since, ids string
	wait       time.Duration
	json       bool
}

// differencesError says that tables and topics differ. The report was printed.
type differencesError struct{ text string }

func (e *differencesError) Error() string { return e.text }

// FaultCode is the kind of the error.
func (e *differencesError) FaultCode() fault.Code { return fault.Differences }

func (p *program) verifyCommand() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the outbox tables with the topics: missing, duplicated, out of order, foreign",
		Long: `Compare the rows of the outbox tables with the records of their topics, and change nothing. Each row is made a record
as the relay does it; topic, key, id and value must be equal. A row that was updated after its event was published counts
as missing, and so does one whose record retention has removed: give --since or --ids then.

A relay may be running: rows that are missing at first are waited for.

Records without a row (foreign) are no error: their rows were deleted, or somebody else writes to the topic.

It needs the right to read tables (SELECT) and topics (Read). Memory: about 220 bytes a row.

` + verifyExits,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selection, err := flags.selection(time.Now())
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return p.verify(cmd, relay.VerifyOptions{Select: selection, Wait: flags.wait}, flags.json)
		},
	}
	cmd.Flags().StringVar(&flags.since, "since", "", "only rows created since a `time` (2026-11-29T12:00:00Z) or for so long (24h)")
	cmd.Flags().StringVar(&flags.ids, "ids", "", "only rows with ids in a `range` such as 1000..2000; either side may be left out")
	cmd.Flags().DurationVar(&flags.wait, "wait", 10*time.Second, "how long missing rows may still come")
	cmd.Flags().BoolVar(&flags.json, "json", false, "the report as one JSON line")
	return cmd
}

const verifyExits = `Exit code 5: rows are missing or unpublishable, or records are duplicated or out of order. The others are those of walrelay --help.`

// selection reads the flags.
func (f verifyFlags) selection(now time.Time) (audit.Selection, error) {
	var s audit.Selection
	var err error
	if s.Since, err = parseTime("--since", f.since, now); err != nil {
		return s, err
	}
	if f.ids != "" {
		first, last, ok := strings.Cut(f.ids, "..")
		if !ok || first == "" && last == "" {
			return s, fmt.Errorf("--ids %s: want a range such as 1000..2000", f.ids)
		}
		s.FirstID, s.LastID = first, last
	}
	if f.wait < 0 {
		return s, errors.New("--wait: want 0s or more")
	}
	return s, nil
}

// parseTime reads a time, or how long ago it was; zero where nothing is said.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%s %s: want a time such as 2026-11-29T12:00:00Z, or a duration such as 24h", flag, text)
	}
	return at, nil
}

// longCommand prepares what verify and repair have in common: the configuration, a logger for warnings, a bar, signals.
func (p *program) longCommand(cmd *cobra.Command, do func(context.Context, relay.Config, *zap.Logger, *progressBar) error) error {
	c, err := p.load(cmd)
	if err != nil {
		return err
	}
	settings, err := c.Relay()
	if err != nil {
		return err
	}
	c.Log.Level = "warn"
	log := newLogger(c.Log, p.err, p.environ)
	bar := newProgressBar(p.err)
	defer bar.end()
	ctx, stop := p.untilSignal(cmd.Context(), log)
	defer stop()
	return do(ctx, settings, log, bar)
}

func (p *program) verify(cmd *cobra.Command, o relay.VerifyOptions, asJSON bool) error {
	return p.longCommand(cmd, func(ctx context.Context, settings relay.Config, log *zap.Logger, bar *progressBar) error {
		o.Progress = bar.show
		report, err := relay.Verify(ctx, settings, o, log)
		bar.end()
		if err != nil {
			return err
		}
		err = p.print(asJSON, report, func() error { return printReport(p.out, report, o.Select) })
		if err == nil && differs(report) {
			err = &differencesError{"tables and topics differ"}
		}
		return err
	})
}

func differs(r audit.Report) bool {
	return r.Missing.Count+r.Unpublishable.Count+r.Duplicated.Count+r.OutOfOrder.Count > 0
}

// printReport writes the report for a person.
func printReport(to io.Writer, r audit.Report, s audit.Selection) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s rows, %s of them are in their topics (%s records read)\n", thousands(r.Rows), thousands(r.Found), thousands(r.Records))
	if r.Buried > 0 {
		fmt.Fprintf(&b, "%s rows are in the dead-letter topic\n", thousands(r.Buried))
	}
	list := func(name string, f audit.Finding) {
		fmt.Fprintf(&b, "%-15s%s\n", name+":", thousands(f.Count))
		for _, example := range f.Examples {
			fmt.Fprintf(&b, "    %s\n", example)
		}
		if more := f.Count - int64(len(f.Examples)); more > 0 && len(f.Examples) > 0 {
			fmt.Fprintf(&b, "    and %s more\n", thousands(more))
		}
	}
	list("missing", r.Missing)
	list("unpublishable", r.Unpublishable)
	list("duplicated", r.Duplicated)
	if r.Replayed > 0 {
		list("replayed", audit.Finding{Count: r.Replayed})
	}
	list("out of order", r.OutOfOrder)
	if s.Since.IsZero() {
		list("foreign", r.Foreign)
	}
	_, err := io.WriteString(to, b.String())
	return err
}
