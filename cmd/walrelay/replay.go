package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/relay"
)

func (p *program) replayCommand() *cobra.Command {
	var o relay.ReplayOptions
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "replay (id... | --all)",
		Short: "Bring events from the dead-letter topic back to their topics",
		Long: `Bring events from the dead-letter topic back to their topics, once what kept them out is mended. They are named by id, or as
the header walrelay.lsn has them, or all are meant. Look first with --dry-run. The relay may go on running, and the command
may be repeated: what is in its topic already is left out.

An event is taken as the dead letter has it. One that is not whole there is made anew from its row, with the mapping of now:
its value was too large, or a column was malformed or NULL. If the row is gone, or the event was too large to be read at
all, it is listed as impossible.

Records carry the header walrelay.replayed with the identity of the event, the time of the commit in walrelay.time, and no
walrelay.lsn. Those of a key come in the order of their commits. An event whose key has a newer one in the topic is listed and
left out, since the older event would be the key's last; --allow-stale brings it back all the same.

It needs the right to read the dead-letter topic and the topics, to write to the topics, and to use the transactional id
of the relay with /replay behind it; and for events that are not whole, to read their tables.

Exit code 5: some were left out. The others are those of walrelay --help.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return &usageError{cmd.CommandPath(), errors.New("--all: leave out the ids")}
			case !all && len(args) == 0:
				return &usageError{cmd.CommandPath(), errors.New("name the events by id, or all with --all")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.IDs = args
			return p.replay(cmd, o, asJSON)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters of this database")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would be done; change nothing")
	cmd.Flags().BoolVar(&o.AllowStale, "allow-stale", false, "bring events back also behind newer events of their key")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the report as one JSON line")
	return cmd
}

func (p *program) replay(cmd *cobra.Command, o relay.ReplayOptions, asJSON bool) error {
	return p.longCommand(cmd, func(ctx context.Context, settings relay.Config, log *zap.Logger, bar *progressBar) error {
		o.Progress = bar.show
		report, err := relay.Replay(ctx, settings, o, log)
		bar.end()
		if err != nil {
			return err
		}
		if asJSON {
			err = json.NewEncoder(p.out).Encode(report)
		} else {
			err = printReplay(p.out, report)
		}
		if err == nil && report.StaleEvents+int64(len(report.Impossible)+len(report.Unknown)) > 0 {
			err = &differencesError{"events were left out, see above"}
		}
		return err
	})
}

func printReplay(to io.Writer, r relay.ReplayReport) error {
	var b strings.Builder
	verb := "brought back"
	if r.DryRun {
		verb = "would be brought back"
	}
	fmt.Fprintf(&b, "%s dead letters: %s %s, %s were in their topics already\n", thousands(r.Letters), thousands(r.Replayed), verb,
		thousands(r.Already))
	if r.Others > 0 {
		fmt.Fprintf(&b, "%s of other databases were left alone\n", thousands(r.Others))
	}
	list := func(what string, n int64, names []string) {
		if n == 0 {
			return
		}
		fmt.Fprintf(&b, "%s: %s\n", what, thousands(n))
		for _, name := range names {
			fmt.Fprintf(&b, "    %s\n", name)
		}
	}
	list("left out, since their keys have newer events (--allow-stale brings them back)", r.StaleEvents, r.Stale)
	list("impossible", int64(len(r.Impossible)), r.Impossible)
	list("no dead letter has this id", int64(len(r.Unknown)), r.Unknown)
	_, err := io.WriteString(to, b.String())
	return err
}
