package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
)

const about = `walrelay publishes the rows of an outbox table in Postgres to Kafka: in commit order, losing none.

Two settings are needed, everything else has a default:

` + example + `

walrelay run prepares the database at its first start; walrelay init does that alone, and walrelay init --sql
prints it for a DBA. Other settings: walrelay.example.yaml, or a variable for each, see docs/configuration.md.

` + exitCodes

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "walrelay",
		Short:         "Outbox rows in Postgres to records in Kafka",
		Long:          about,
		SilenceUsage:  true,
		SilenceErrors: true, // report writes them
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	p.flags.add(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd.CommandPath(), err} })
	root.AddCommand(
		p.runCommand(),
		p.initCommand(),
		p.slotCommand(),
		p.pauseCommand(),
		p.resumeCommand(),
		p.skipCommand(),
		p.drainCommand(),
		p.verifyCommand(),
		p.repairCommand(),
		p.replayCommand(),
		p.pruneCommand(),
		p.tailCommand(),
		p.statusCommand(),
		p.doctorCommand(),
		p.findCommand(),
		p.importDebeziumCommand(),
		p.configCommand(),
		p.versionCommand(),
	)
	return root
}

// plainWord is an argument that can be repeated in a message; anything else may be a connection string.
var plainWord = regexp.MustCompile(`^[a-z-]{1,20}$`)

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := "unknown command"
	if plainWord.MatchString(args[0]) {
		text += fmt.Sprintf(" %q", args[0])
		cmd.SuggestionsMinimumDistance = 2 // letters
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			text += fmt.Sprintf("; did you mean %s?", similar[0])
		}
	}
	return &usageError{cmd.CommandPath(), errors.New(text)}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{cmd.CommandPath(), errors.New("takes flags only, no arguments")}
}
