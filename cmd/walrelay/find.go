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

	"github.com/walrelay/walrelay/relay"
)

// findFlags are what find can be told.
type findFlags struct {
	since  time.Duration
	topics []string
	json   bool
}

func (p *program) findCommand() *cobra.Command {
	var flags findFlags
	cmd := &cobra.Command{
		Use:   "find event",
		Short: "Tell where an event is: published, in the dead-letter topic, or still to come",
		Long: `Tell where an event is, by its id (as the header id has it) or its identity (as walrelay.lsn, the status and the log have
it): in which topic, partition and offset, in the dead-letter topic and why, or still in the log. It changes nothing.

Topics are read from --since ago on, so that a long time takes long. It needs the right to read them. With the right to
read the outbox table it finds the topic by the row, and tells of a row that is not published yet that it is still to come.

Exit code 5: it is nowhere. The others are those of walrelay --help.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
				return &usageError{cmd.CommandPath(), errors.New("want the id of one event")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.find(cmd, args[0], flags) },
	}
	cmd.Flags().DurationVar(&flags.since, "since", 24*time.Hour, "how far back topics are read")
	cmd.Flags().StringArrayVar(&flags.topics, "topic", nil, "`name` of a topic to look through, repeatable (default those that the configuration tells)")
	cmd.Flags().BoolVar(&flags.json, "json", false, "as one JSON line")
	return cmd
}

func (p *program) find(cmd *cobra.Command, id string, flags findFlags) error {
	if flags.since <= 0 {
		return &usageError{cmd.CommandPath(), errors.New("--since: want more than 0s")}
	}
	return p.longCommand(cmd, func(ctx context.Context, settings relay.Config, log *zap.Logger, _ *progressBar) error {
		found, err := relay.Find(ctx, settings, id, time.Now().Add(-flags.since), flags.topics, log)
		if err != nil {
			return err
		}
		err = p.print(flags.json, found, func() error {
			_, err := io.WriteString(p.out, whereabouts(id, found))
			return err
		})
		if err == nil && len(found.Places) == 0 && !found.Waiting {
			err = &differencesError{fmt.Sprintf("event %s is in none of %d topics since %s", id, len(found.Topics), found.Since.UTC().Format(time.RFC3339))}
		}
		return err
	})
}

// whereabouts says it to a person.
func whereabouts(id string, found relay.Whereabouts) string {
	var b strings.Builder
	for _, place := range found.Places {
		where := fmt.Sprintf("topic %s, partition %d, offset %d, at %s", place.Topic, place.Partition, place.Offset, place.Time.Format(time.RFC3339Nano))
		switch {
		case place.DeadLetter != "":
			fmt.Fprintf(&b, "dead letter: %s; because %s\n", where, place.DeadLetter)
		case place.Event == "":
			fmt.Fprintf(&b, "published by another program: %s\n", where)
		default:
			fmt.Fprintf(&b, "published: %s (%s)\n", where, place.Event)
		}
	}
	switch {
	case found.Table == "":
	case found.Waiting:
		fmt.Fprintf(&b, "still to come: its row is in %s, and the relay is not past it; see walrelay status\n", found.Table)
	default:
		fmt.Fprintf(&b, "its row is in %s\n", found.Table)
	}
	if len(found.Places) == 0 && !found.Waiting && found.Table != "" {
		fmt.Fprintf(&b, "event %s should be in %s; look farther back with --since, or compare all of it: walrelay verify\n", id, strings.Join(found.Topics, ", "))
	}
	return b.String()
}
