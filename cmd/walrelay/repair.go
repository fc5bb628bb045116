package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

// unprovableError is the end of a repair that cannot know whether something was missing. The report was printed.
type unprovableError struct{ text string }

func (e *unprovableError) Error() string { return e.text }

// FaultCode is the kind of the error.
func (e *unprovableError) FaultCode() fault.Code { return fault.Unproven }

func (p *program) repairCommand() *cobra.Command {
	var o relay.RepairOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "After a lost, moved or re-created slot: publish what is missing and make the slot anew",
		Long: `Publish the rows that are in an outbox table and not in their topic, and make the slot anew, so that walrelay run goes on
exactly behind them: nothing is left out and nothing published twice. Stop every walrelay run of the slot first. Look first
with --dry-run.

It compares the rows that are not known to be in Kafka with the topics: topic, key, id and value. Records that it publishes
carry the header walrelay.repaired, the time of the row in walrelay.time, and no walrelay.lsn. They come in the order of the
commits where track_commit_timestamp is on, else of the ids where those are integers or UUIDs of version 7, else of
created_at.

A missing row whose key has a newer event in the topic already is listed and left out, since the older event would be the
key's last; --allow-stale publishes it. Where nothing tells the order, with random ids and no created_at, every event of the
key counts as newer. It is not asked for again afterwards.

The result is
  proved      every row has its record, and there is no sign of deleted rows
  repaired    rows were missing and are in their topics now
  left_out    rows are missing still, see --allow-stale
  unprovable  what the tables still have is in the topics now; but rows were deleted, or events have no table, so that nobody
              can tell what else was missing

A repair that was interrupted leaves the row in walrelay.checkpoint in the state repairing, in which no relay starts; run it
again. It needs the rights of walrelay init, and to read tables (SELECT) and topics (Read). Memory: about 220 bytes a row.

Exit code 4: unprovable. 5: rows were left out, or cannot be published. The others are those of walrelay --help.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.repair(cmd, o, asJSON) },
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what is missing; change nothing")
	cmd.Flags().BoolVar(&o.AllowStale, "allow-stale", false, "publish missing rows also behind newer events of their key")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the report as one JSON line")
	return cmd
}

func (p *program) repair(cmd *cobra.Command, o relay.RepairOptions, asJSON bool) error {
	return p.longCommand(cmd, func(ctx context.Context, settings relay.Config, log *zap.Logger, bar *progressBar) error {
		o.Progress = bar.show
		o.Step = func(step replication.Step) {
			bar.end()
			if !asJSON {
				p.step(step)
			}
		}
		report, err := relay.Repair(ctx, settings, o, log)
		bar.end()
		if err != nil {
			return err
		}
		if err := p.print(asJSON, report, func() error { return printRepair(p.out, report) }); err != nil {
			return err
		}
		return repairEnd(report)
	})
}

// step prints a step of init or repair.
func (p *program) step(step replication.Step) {
	sign := " "
	if step.Changed {
		sign = "+"
	}
	fmt.Fprintf(p.out, "%s %s\n", sign, step.Text)
}

// repairEnd tells what a person must know of the end.
func repairEnd(r relay.RepairReport) error {
	switch {
	case r.StaleRows+r.Compared.Unpublishable.Count > 0:
		return &differencesError{"rows are missing in their topics, see above; insert them anew where their events are still wanted"}
	case r.Outcome == relay.Unprovable:
		return &unprovableError{"whether more was missing cannot be told: rows were deleted, or events have no table"}
	}
	return nil
}

func printRepair(to io.Writer, r relay.RepairReport) error {
	var b strings.Builder
	verb, result := "published", "result"
	if r.DryRun {
		verb, result = "would be published", "result would be"
	}
	fmt.Fprintf(&b, "%s rows compared with %s records: %s were there, %s %s\n", thousands(r.Compared.Rows), thousands(r.Compared.Records),
		thousands(r.Compared.Found), thousands(r.Published), verb)
	if r.DryRun {
		for _, example := range r.Compared.Missing.Examples {
			fmt.Fprintf(&b, "    missing: %s\n", example)
		}
	}
	if r.Gone > 0 {
		fmt.Fprintf(&b, "%s were missing and were deleted or changed meanwhile\n", thousands(r.Gone))
	}
	if r.StaleRows > 0 {
		fmt.Fprintf(&b, "%s were left out, since their keys have newer events (--allow-stale publishes them):\n", thousands(r.StaleRows))
		for _, row := range r.Stale {
			fmt.Fprintf(&b, "    %s\n", row)
		}
	}
	for _, example := range r.Compared.Unpublishable.Examples {
		fmt.Fprintf(&b, "    cannot be published: %s\n", example)
	}
	if r.Unfenced {
		b.WriteString("no right to the transactional id: a relay that was killed shortly before may have published some of them too\n")
	}
	fmt.Fprintf(&b, "%s: %s\n", result, r.Outcome)
	_, err := io.WriteString(to, b.String())
	return err
}
