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
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/relay"
)

// replayFlags are what replay can be told beside ids.
type replayFlags struct {
	relay.ReplayOptions
	from, since, until, lsn string
	all, json               bool
}

func (p *program) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay (id... | --key | --type | --since | --until | --lsn | --all)",
		Short: "Bring events to their topics again, from the dead-letter topic or from the tables",
		Long:  replayLong,
		Example: `  walrelay replay --all --dry-run                                   what can come back from the dead-letter topic
  walrelay replay 0198c0de-0000-7000-8000-000000000001              one dead letter
  walrelay replay --from tables --all --allow-stale                 what a topic that was lost does not have any more
  walrelay replay --from tables --again --key order-42              all events of a key, once more
  walrelay replay --from tables --again --type OrderPaid --since 24h`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			o, err := f.options(ids, time.Now())
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return p.replay(cmd, o, f.json)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", string(relay.FromDeadLetters), "where events are taken from: dead-letters or tables")
	flags.StringArrayVar(&f.Keys, "key", nil, "only events with a `key` of their record, repeatable")
	flags.StringArrayVar(&f.Types, "type", nil, "only events of a `type`, repeatable")
	flags.StringVar(&f.since, "since", "", "only events since a `time` (2026-11-29T12:00:00Z) or for so long (24h)")
	flags.StringVar(&f.until, "until", "", "only events until a `time`, as --since")
	flags.StringVar(&f.lsn, "lsn", "", "only events with commits in a `range` such as 0/16B3748..0/1700000; either side may be left out")
	flags.BoolVar(&f.all, "all", false, "all events")
	flags.BoolVar(&f.Again, "again", false, "from tables: also events that are in their topics")
	flags.BoolVar(&f.DryRun, "dry-run", false, "only say what would be done; change nothing")
	flags.BoolVar(&f.AllowStale, "allow-stale", false, "bring events also behind newer events of their key")
	flags.BoolVar(&f.json, "json", false, "the report as one JSON line")
	return cmd
}

const replayLong = `Bring events to their topics again. They are named by id, or chosen by key, type, time or LSN; what is said must all be true
of an event. Look first with --dry-run. The relay may go on running.

From the dead-letter topic (default): once what kept events out is mended. An event is taken as the dead letter has it. One
that is not whole there is made anew from its row, with the mapping of now: its value was too large, or a column was
malformed or NULL. If the row is gone, or the event was too large to be read at all, it is listed as impossible. Ids may also
be identities, as the header walrelay.lsn has them. The event type is known where placements make a header of it; other dead
letters are not chosen by --type.

From the tables (--from tables): what a topic has lost, or with --again also what is there, for a consumer that must see it
once more. Consumers that know ids of events leave out what they have had. A row is taken to be in its topic when the topic
has its id and key, whatever the value. Nobody can tell a record that was lost from one that never was: rows that init
--existing=skip left out, or a person with walrelay skip, are published by --all; choose by --since or id then. A row that is not in its topic and may still come
from a relay is left to it. Times are those of created_at, or of the column that the mapping names; with --again --lsn the
records in the topics tell the places of rows.

What is in its topic already is left out, so that the command may be repeated, except with --again. Events of a key come in
the order of their commits; those of tables as walrelay repair says. An event whose key has a newer one in the topic that is
not brought as well is listed and left out, since the older event would be the key's last; --allow-stale brings it all the same.
Several tables that share a topic are looked at one by one. What the relay publishes of a key after the topics were read is not waited for: pause the relay where even that matters.

Records carry the header walrelay.replayed, with the identity of the event, or for a row with the time of the replay; the time
of the event in walrelay.time; and no walrelay.lsn.

It needs the right to read topics, to write to them, and to use the transactional id of the relay with /replay behind it; and
to read the tables (SELECT), for dead letters only where they are not whole. Memory: about 220 bytes a row; dead letters whole.

Exit code 5: events were left out. The others are those of walrelay --help.`

// options reads the flags.
func (f *replayFlags) options(ids []string, now time.Time) (o relay.ReplayOptions, err error) {
	o = f.ReplayOptions
	o.From = relay.ReplaySource(f.from)
	for _, id := range ids {
		o.IDs = append(o.IDs, audit.CanonicalID(id))
	}
	if o.Since, err = parseTime("--since", f.since, now); err == nil {
		o.Until, err = parseTime("--until", f.until, now)
	}
	if err == nil && f.lsn != "" {
		o.FirstLSN, o.LastLSN, err = parseLSNs(f.lsn)
	}
	narrow := len(ids)+len(o.Keys)+len(o.Types) > 0 || f.since+f.until+f.lsn != ""
	switch tables := o.From == relay.FromTables; {
	case err != nil:
		return o, err
	case !tables && o.From != relay.FromDeadLetters:
		return o, fmt.Errorf("--from %s: want dead-letters or tables", f.from)
	case !o.Since.IsZero() && !o.Until.IsZero() && o.Until.Before(o.Since):
		return o, errors.New("--until is earlier than --since")
	case f.all && narrow:
		return o, errors.New("--all: leave out the ids and what else narrows them")
	case !f.all && !narrow:
		return o, errors.New("name the events by id, choose them by --key, --type, --since, --until or --lsn, or take all with --all")
	case o.Again && !tables:
		return o, errors.New("--again: want --from tables with it")
	case f.lsn != "" && tables && !o.Again:
		return o, errors.New("--lsn: want --again with it, since the place of a row is known from its record in the topic alone")
	}
	return o, nil
}

// parseLSNs reads a range.
func parseLSNs(text string) (first, last lsn.Start, err error) {
	from, to, ok := strings.Cut(text, "..")
	ends := [2]lsn.End{}
	for i, side := range []string{from, to} {
		if side != "" && err == nil {
			ends[i], err = lsn.ParseEnd(side)
		}
	}
	zero := from != "" && ends[0] == 0 || to != "" && ends[1] == 0 // would mean no bound
	if !ok || err != nil || from == "" && to == "" || zero || to != "" && ends[1] < ends[0] {
		return 0, 0, fmt.Errorf("--lsn %s: want a range such as 0/16B3748..0/1700000", text)
	}
	return lsn.Start(ends[0]), lsn.Start(ends[1]), nil
}

func (p *program) replay(cmd *cobra.Command, o relay.ReplayOptions, asJSON bool) error {
	return p.longCommand(cmd, func(ctx context.Context, settings relay.Config, log *zap.Logger, bar *progressBar) error {
		o.Progress = bar.show
		report, err := relay.Replay(ctx, settings, o, log)
		bar.end()
		if err != nil {
			return err
		}
		err = p.print(asJSON, report, func() error { return printReplay(p.out, report) })
		if err == nil && report.LeftOut() {
			err = &differencesError{"events were left out, see above"}
		}
		return err
	})
}

func printReplay(to io.Writer, r relay.ReplayReport) error {
	var b strings.Builder
	verb, what, nobody := "brought back", "dead letters", "no such dead letter, or not chosen by the rest"
	if r.From == relay.FromTables {
		verb, what, nobody = "published", "rows", "no such row, or not chosen by the rest"
	}
	if r.DryRun {
		verb = "would be " + verb
	}
	fmt.Fprintf(&b, "%s %s: %s %s, %s were in their topics already\n", thousands(r.Events), what, thousands(r.Replayed), verb, thousands(r.Already))
	for _, line := range []struct {
		n    int64
		text string
	}{
		{r.Others, "of other databases were left alone"},
		{r.Waiting, "are left to the relay, which may still send them"},
		{r.Buried, "are in the dead-letter topic; bring them back with walrelay replay --from dead-letters"},
		{r.Gone, "were deleted or changed meanwhile"},
	} {
		if line.n > 0 {
			fmt.Fprintf(&b, "%s %s\n", thousands(line.n), line.text)
		}
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
	list("left out, since their keys have newer events (--allow-stale brings them all the same)", r.StaleEvents, r.Stale)
	list("impossible", r.ImpossibleEvents, r.Impossible)
	list(nobody, int64(len(r.Unknown)), r.Unknown)
	_, err := io.WriteString(to, b.String())
	return err
}
