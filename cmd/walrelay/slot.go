package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

func (p *program) slotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slot",
		Short: "Inspect, create, drop or adopt the replication slot",
		Long:  "Look after the slot that postgres.slot names. All of it needs only the Postgres settings.",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.slotInspectCommand(), p.slotCreateCommand(), p.slotDropCommand(), p.slotAdoptCommand())
	return cmd
}

func (p *program) slotInspectCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show everything that the server and walrelay know of the slot",
		Args:  noArguments,
		RunE: p.onSlot(func(ctx context.Context, conn *pgx.Conn, slot, publication string) error {
			found, err := replication.Inspect(ctx, conn, slot, publication)
			if err != nil {
				return err
			}
			return p.print(asJSON, found, func() error { return p.printSlot(found) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as one JSON line")
	return cmd
}

func (p *program) slotCreateCommand() *cobra.Command {
	var options replication.SetupOptions
	var existing string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make the slot and what belongs to it, as walrelay init does",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Existing = replication.Existing(existing)
			if options.Existing != replication.RefuseExisting && options.Existing != replication.SkipExisting {
				return &usageError{cmd.CommandPath(), fmt.Errorf("--existing: want %s, or use walrelay init", replication.SkipExisting)}
			}
			settings, err := p.loadWithoutKafka(cmd)
			if err != nil {
				return err
			}
			return p.prepare(cmd.Context(), settings, options)
		},
	}
	cmd.Flags().StringVar(&existing, "existing", "", "what becomes of rows that are in the outbox already: skip")
	cmd.Flags().BoolVar(&options.Failover, "failover", false, "make it go along to standbys (Postgres 17 and later)")
	return cmd
}

func (p *program) slotDropCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop --yes",
		Short: "Drop the slot: what it has not sent is never published",
		Long: `Drop the slot, so that the server keeps no log for it any more. Events that it has not sent are never published by
walrelay. The row in walrelay.checkpoint and the publication stay.`,
		Args: noArguments,
	}
	cmd.RunE = p.onSlot(func(ctx context.Context, conn *pgx.Conn, slot, publication string) error {
		found, err := replication.Inspect(ctx, conn, slot, publication)
		switch {
		case err != nil:
			return err
		case found.Holder != "":
			return &replication.SetupError{Code: fault.SlotHeld, Problem: fmt.Sprintf("slot %s is held by %s", slot, found.Holder), Remedy: "stop that program first"}
		case !yes:
			return &usageError{cmd.CommandPath(), fmt.Errorf("slot %s has %d bytes of log to send; what is in them is lost with it; say --yes to drop it",
				slot, found.UnconfirmedBytes)}
		}
		if err := replication.DropSlot(ctx, conn, slot); err != nil {
			return err
		}
		fmt.Fprintf(p.out, "slot %s dropped\n", slot)
		if !bytes.Equal(found.Checkpoint, []byte("null")) {
			fmt.Fprintf(p.out, "its row stays, so that nobody begins anew by mistake; to begin anew: DELETE FROM walrelay.checkpoint WHERE slot = '%s'; then walrelay init\n", slot)
		}
		return nil
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (p *program) slotAdoptCommand() *cobra.Command {
	var options replication.AdoptOptions
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take over the slot of another program, such as Debezium",
		Long: `Take over a slot that another program has used, at the position that the slot has. Run it while that program is still at
work: it makes the publication, then says when the slot is past it and the program is to be stopped, and at last
writes the row in walrelay.checkpoint, from which walrelay run goes on. Exit code 3 means that something must be done
first. The whole procedure is in docs/takeover.md.

It is also the way out where walrelay run refuses a row that was written on another system (an upgraded server), and
with --new-kafka-cluster where it refuses another Kafka cluster.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := p.loadWithoutKafka(cmd)
			if err != nil {
				return err
			}
			return p.adopt(cmd.Context(), settings, options)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&options.MatchByID, "match-by-id", false,
		"events that the other program has published, but not confirmed, are recognised by id and key in the topics; ids must be unique")
	flags.BoolVar(&options.NewKafkaCluster, "new-kafka-cluster", false, "the next run may publish to another Kafka cluster")
	noSubscribersFlag(cmd, &options.NoSubscribers)
	return cmd
}

func noSubscribersFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "no-subscribers", nil,
		"`name` of a publication of all tables that no Postgres subscription reads, such as Debezium's; repeatable")
}

func (p *program) adopt(ctx context.Context, settings relay.Config, options replication.AdoptOptions) error {
	options.Tables, options.Ignore, options.Check, options.Report = settings.TableNames(), settings.Ignore, settings.Fits, p.step
	options.IDColumns = make(map[string]string)
	for _, table := range settings.Tables {
		options.IDColumns[table.Name] = cmp.Or(table.Route.Columns.ID, "id") // every preset has it
	}
	prepared, err := replication.Adopt(ctx, settings.Postgres, options)
	if errors.Is(err, replication.ErrStandby) {
		return &replication.SetupError{Code: fault.Standby, Problem: "the server is a standby", Remedy: "run walrelay slot adopt with the address of the primary"}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "ready: walrelay run goes on from slot %s\n", prepared.Slot)
	return err
}

// onSlot is the work of a command that needs a connection and the names.
func (p *program) onSlot(work func(ctx context.Context, conn *pgx.Conn, slot, publication string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		settings, err := p.loadWithoutKafka(cmd)
		if err != nil {
			return err
		}
		address, err := settings.Postgres.SQL()
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		conn, err := pgx.ConnectConfig(ctx, address)
		if err != nil {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server notices either way
		slot, publication := settings.Postgres.Names(address.Database)
		return work(ctx, conn, slot, publication)
	}
}

// printSlot prints a table for people: the server's columns in the server's order, then ours.
func (p *program) printSlot(found *replication.Inspection) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	err := printObject(table, "", found.Slot)
	fmt.Fprintf(table, "held by\t%s\n", cmp.Or(found.Holder, "nobody"))
	fmt.Fprintf(table, "bytes to send\t%d\n", found.UnconfirmedBytes)
	fmt.Fprintf(table, "bytes of log kept\t%d\n", found.RetainedBytes)
	state := "does not exist"
	switch {
	case found.Publication.Passed:
		state = "older than what the slot has to send"
	case found.Publication.Exists:
		state = "the slot is not past it yet, or was not told"
	}
	fmt.Fprintf(table, "publication %s\t%s\n", found.Publication.Name, state)
	if bytes.Equal(found.Checkpoint, []byte("null")) {
		fmt.Fprintf(table, "checkpoint\tno row\n")
	} else {
		err = errors.Join(err, printObject(table, "checkpoint ", found.Checkpoint))
	}
	return errors.Join(err, table.Flush())
}

// printObject prints the members of a flat JSON object in their order.
func printObject(table *tabwriter.Writer, prefix string, object json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil { // the brace
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		value, err := decoder.Token()
		if err != nil {
			return err
		}
		if value == nil {
			value = "-"
		}
		fmt.Fprintf(table, "%s%v\t%v\n", prefix, name, value)
	}
	return nil
}
