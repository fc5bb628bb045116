package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/prune"
)

// pruneFlags are what prune can be told.
type pruneFlags struct {
	options            prune.Options
	olderThan, archive string
	every              time.Duration
}

func (p *program) pruneCommand() *cobra.Command {
	var flags pruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete outbox rows that are surely in Kafka and old enough; drop and create partitions",
		Long: `Delete rows of the outbox tables that are surely in Kafka (their transaction is below the horizon in walrelay.checkpoint) and
older than asked, some blocks at a time, with pauses. Of a table that is partitioned by time, partitions of which that is
true are detached without holding anybody up and dropped, and with --partitions new ones are created ahead.

Give it a role of its own by WALRELAY_POSTGRES_URL; the relay needs no right on the outbox:
  GRANT USAGE ON SCHEMA walrelay TO pruner; GRANT SELECT ON walrelay.checkpoint TO pruner;
  GRANT SELECT, DELETE, UPDATE (id) ON outbox TO pruner; -- UPDATE is what FOR UPDATE SKIP LOCKED asks for
A partitioned table must be its own. It needs no Kafka.

With --every it goes on until it is stopped, and an error that a later run may mend is told and not its end.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.prune(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.olderThan, "older-than", "7d", "least `age` of what is deleted, such as 12h or 7d; 0s: all that is in Kafka")
	f.StringVar(&flags.options.Column, "column", "created_at", "`name` of the column with the time of a row")
	f.IntVar(&flags.options.Batch, "batch", 1000, "about how many `rows` a transaction deletes")
	f.StringVar(&flags.options.ArchiveTable, "archive-table", "", "`schema.table` that gets the rows first, made as CREATE TABLE x (LIKE outbox)")
	f.StringVar(&flags.archive, "archive-file", "", "`file` that gets the rows first, appended as lines of JSON")
	f.StringVar(&flags.options.Partitions, "partitions", "", "create partitions ahead, one for each `day`, week or month")
	f.IntVar(&flags.options.Ahead, "ahead", 14, "how many `partitions` ahead of now")
	f.BoolVar(&flags.options.DryRun, "dry-run", false, "only say what would be done")
	f.DurationVar(&flags.every, "every", 0, "run again and again with this `pause`, such as 1h")
	return cmd
}

func (p *program) prune(cmd *cobra.Command, flags pruneFlags) (err error) {
	settings, err := p.loadWithoutKafka(cmd)
	if err != nil {
		return err
	}
	config, err := settings.Postgres.SQL()
	if err != nil {
		return err
	}
	o := flags.options
	if o.OlderThan, err = parseAge(flags.olderThan); err != nil {
		return &usageError{cmd.CommandPath(), fmt.Errorf("--older-than: %w", err)}
	}
	if flags.archive != "" {
		file, err := os.OpenFile(flags.archive, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		o.ArchiveFile = file
	}
	o.Slot, _ = settings.Postgres.Names(config.Database)
	o.Tables = settings.TableNames()
	o.Report = func(done prune.Table) { printPruned(p.out, done, o.DryRun) }
	if err := o.Check(); err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	ctx, stop := p.untilSignal(cmd.Context(), zap.NewNop())
	defer stop()
	return p.every(ctx, flags.every, func() error { return prune.Run(ctx, config, o) })
}

// every does something once, or, with a pause, until the context ends.
func (p *program) every(ctx context.Context, interval time.Duration, do func() error) error {
	for {
		err := do()
		if interval <= 0 {
			return err
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(p.err, "walrelay: "+oneLine(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// parseAge is time.ParseDuration with days.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && n >= 0 && n < 36500 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, fmt.Errorf("%q: want an age such as 12h or 7d", text)
	}
	return age, nil
}

func printPruned(to io.Writer, done prune.Table, dryRun bool) {
	verb := ""
	if dryRun {
		verb = "would be "
	}
	fmt.Fprintf(to, "%s: %s rows %sdeleted\n", done.Name, thousands(done.Deleted), verb)
	for _, name := range done.Created {
		fmt.Fprintf(to, "    partition %s %screated\n", name, verb)
	}
	for _, name := range done.Dropped {
		fmt.Fprintf(to, "    partition %s %sdropped\n", name, verb)
	}
	for _, name := range done.Busy {
		fmt.Fprintf(to, "    partition %s is kept: it has rows that may not be in Kafka yet\n", name)
	}
}
