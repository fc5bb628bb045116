package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

// initFlags are what init can be told.
type initFlags struct {
	sql      bool
	existing string
}

func (p *program) initCommand() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Prepare the database: schema walrelay, publication, slot, and the outbox table if there is none",
		Long: `Prepare the database and say what was done and what was there already. It asks nothing, alters no table of yours, and
may be run again. It needs only the Postgres settings.

The outbox must be empty, since rows from before the slot are not in it; --existing=skip never publishes them.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.existing != "" && replication.Existing(flags.existing) != replication.SkipExisting {
				return &usageError{cmd.CommandPath(), fmt.Errorf("--existing: want %s", replication.SkipExisting)}
			}
			settings, err := p.loadWithoutKafka(cmd)
			if err != nil {
				return err
			}
			if flags.sql {
				return p.printScript(cmd.Context(), settings, flags)
			}
			return p.prepare(cmd.Context(), settings, flags)
		},
	}
	cmd.Flags().BoolVar(&flags.sql, "sql", false, "print all of it as SQL for a DBA, and change nothing")
	cmd.Flags().StringVar(&flags.existing, "existing", "", "what becomes of rows that are in the outbox already: skip")
	return cmd
}

// loadWithoutKafka is load for a command that needs no brokers.
func (p *program) loadWithoutKafka(cmd *cobra.Command) (relay.Config, error) {
	const brokers = "kafka.brokers"
	c, err := p.load(cmd)
	var problems config.Problems
	if errors.As(err, &problems) {
		err = problems.Without(brokers)
	}
	if err != nil {
		return relay.Config{}, err
	}
	settings, err := c.Relay()
	if errors.As(err, &problems) {
		err = problems.Without(brokers)
	}
	return settings, err
}

// prepare does what init is for.
func (p *program) prepare(ctx context.Context, settings relay.Config, flags initFlags) error {
	prepared, err := replication.Setup(ctx, settings.Postgres, replication.SetupOptions{
		Tables:   settings.TableNames(),
		Init:     true,
		Existing: replication.Existing(flags.existing),
		Check:    settings.Fits,
		Report: func(step replication.Step) {
			sign := " "
			if step.Changed {
				sign = "+"
			}
			fmt.Fprintf(p.out, "%s %s\n", sign, step.Text)
		},
	})
	if errors.Is(err, replication.ErrStandby) {
		return &replication.SetupError{Problem: "the server is a standby", Remedy: "run walrelay init with the address of the primary"}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "ready: walrelay run relays from slot %s\n", prepared.Slot)
	return err
}

// printScript prints what init would do. It looks at the database only to learn which tables are absent.
func (p *program) printScript(ctx context.Context, settings relay.Config, flags initFlags) error {
	script := replication.Script{
		Slot:        settings.Postgres.Slot,
		Publication: settings.Postgres.Publication,
		Tables:      settings.TableNames(),
		Messages:    settings.Messages != nil,
		Existing:    replication.Existing(flags.existing),
	}
	var err error
	script.Create, err = absent(ctx, settings)
	if err != nil {
		fmt.Fprintln(p.err, "walrelay: the script takes the outbox tables as existing, since the database could not be asked: "+oneLine(err))
	}
	text, err := script.SQL()
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(p.out, text)
	return err
}

// absent are the tables that do not exist.
func absent(ctx context.Context, settings relay.Config) ([]string, error) {
	address, err := settings.Postgres.SQL()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var list []string
	for _, table := range settings.Tables {
		found, err := replication.FindTable(ctx, conn, table.Name)
		if err != nil {
			return nil, err
		}
		if found == nil {
			list = append(list, table.Name)
		}
	}
	return list, nil
}
