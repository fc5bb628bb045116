package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/migrations"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

// initFlags are what init can be told.
type initFlags struct {
	sql, schemaOnly bool
	existing        string
	role            string
	noSubscribers   []string
}

func (p *program) initCommand() *cobra.Command {
	var flags initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Prepare the database: schema walrelay, publication, slot, and the outbox table if there is none",
		Long: `Prepare the database and say what was done and what was there already. It asks nothing, alters no table of yours, and
may be run again. It needs only the Postgres settings.

Rows from before the slot are not in it, so the outbox must be empty, unless --existing says what becomes of them: skip
never publishes them; publish publishes them now, exactly up to where the slot begins, while the application goes on
writing. It needs Kafka and the right to read the tables. The records carry the time of publishing, and that of the row in
the header walrelay.time. Interrupted, run it again: it looks what is in the topics already. Memory: about 220 bytes a row.

A database whose applications only consume events needs the schema walrelay alone: --schema-only.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch existing := replication.Existing(flags.existing); existing {
			case replication.RefuseExisting, replication.SkipExisting:
			case replication.PublishExisting:
				if flags.sql {
					return &usageError{cmd.CommandPath(), errors.New("--existing=publish: a script cannot publish; leave out --sql")}
				}
				return p.initWithRows(cmd, flags.noSubscribers)
			default:
				return &usageError{cmd.CommandPath(), fmt.Errorf("--existing: want %s or %s", replication.PublishExisting, replication.SkipExisting)}
			}
			if flags.role != "" && !flags.sql {
				return &usageError{cmd.CommandPath(), errors.New("--role: the grants are part of the script, which --sql prints")}
			}
			settings, err := p.loadWithoutKafka(cmd)
			if err != nil {
				return err
			}
			switch {
			case flags.schemaOnly && flags.existing != "":
				return &usageError{cmd.CommandPath(), errors.New("--schema-only makes no slot, so --existing has no meaning")}
			case flags.schemaOnly && flags.sql:
				return p.printSchema()
			case flags.schemaOnly:
				return replication.SetupSchema(cmd.Context(), settings.Postgres, flags.noSubscribers, p.step)
			case flags.sql:
				return p.printScript(cmd.Context(), settings, flags)
			}
			return p.prepare(cmd.Context(), settings, replication.SetupOptions{
				Existing: replication.Existing(flags.existing), NoSubscribers: flags.noSubscribers,
			})
		},
	}
	cmd.Flags().BoolVar(&flags.sql, "sql", false, "print all of it as SQL for a DBA, and change nothing")
	cmd.Flags().BoolVar(&flags.schemaOnly, "schema-only", false, "the schema walrelay alone, for a database without an outbox")
	cmd.Flags().StringVar(&flags.role, "role", "", "with --sql: `name` of the role that relays, which gets what it needs and nothing else")
	cmd.Flags().StringVar(&flags.existing, "existing", "", "what becomes of rows that are in the outbox already: `publish` or skip")
	noSubscribersFlag(cmd, &flags.noSubscribers)
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

// initWithRows is init that publishes the rows which are there.
func (p *program) initWithRows(cmd *cobra.Command, noSubscribers []string) error {
	return p.longCommand(cmd, func(ctx context.Context, settings relay.Config, log *zap.Logger, bar *progressBar) error {
		var report relay.RepairReport
		fill := relay.Backfill(settings, bar.show, log, &report)
		err := p.prepare(ctx, settings, replication.SetupOptions{
			Existing: replication.PublishExisting, NoSubscribers: noSubscribers,
			Fill: func(ctx context.Context, prepared replication.Prepared, h *replication.Handover) error {
				err := fill(ctx, prepared, h)
				bar.end()
				if err == nil {
					fmt.Fprintf(p.out, "+ %s rows published, %s were in their topics already\n",
						thousands(report.Published), thousands(report.Compared.Found))
				}
				return err
			},
		})
		if err == nil && report.Compared.Unpublishable.Count > 0 {
			return &differencesError{fmt.Sprintf("%d rows cannot be published, such as %s",
				report.Compared.Unpublishable.Count, report.Compared.Unpublishable.Examples[0])}
		}
		return err
	})
}

// prepare does what init is for. o says what becomes of existing rows.
func (p *program) prepare(ctx context.Context, settings relay.Config, o replication.SetupOptions) error {
	o.Tables, o.Init, o.Check, o.Report = settings.TableNames(), true, settings.Fits, p.step
	prepared, err := replication.Setup(ctx, settings.Postgres, o)
	if errors.Is(err, replication.ErrStandby) {
		return &replication.SetupError{Code: fault.Standby, Problem: "the server is a standby", Remedy: "run walrelay init with the address of the primary"}
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
		Role:        flags.role,
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

// printSchema prints what SetupSchema would do on a database without the schema.
func (p *program) printSchema() error {
	text, err := migrations.SQL()
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(p.out, "BEGIN;\n\n", text, "\nCOMMIT;\n")
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
