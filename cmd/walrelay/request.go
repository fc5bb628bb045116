package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// outcomeWait is how long a command waits for the relay to answer; it looks every two seconds.
const outcomeWait = 10 * time.Second

func (p *program) pauseCommand() *cobra.Command {
	return p.requestCommand(checkpoint.Pause, &cobra.Command{
		Use:   "pause [--reason text]",
		Short: "Ask the running relay to publish nothing more; the slot keeps the events",
		Args:  noArguments,
	})
}

func (p *program) resumeCommand() *cobra.Command {
	return p.requestCommand(checkpoint.Resume, &cobra.Command{
		Use:   "resume [--reason text]",
		Short: "Ask the paused relay to go on",
		Args:  noArguments,
	})
}

func (p *program) skipCommand() *cobra.Command {
	return p.requestCommand(checkpoint.Skip, &cobra.Command{
		Use:   "skip event --reason text",
		Short: "Ask the relay to leave out one event that halts it",
		Long: `Ask the relay to leave out one event. The event is named as the status and the log name it,
source:commit:time:ordinal. The request waits until the event comes; walrelay.request keeps who asked, why, and what
became of it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			if _, err := lsn.ParseIdentity(args[0]); err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return nil
		},
	})
}

func (p *program) drainCommand() *cobra.Command {
	return p.requestCommand(checkpoint.Drain, &cobra.Command{
		Use:   "drain [--reason text]",
		Short: "Before the server is stopped for good: publish everything, and leave the slot nothing to send",
		Long: `Ask the running relay to publish everything and to bring the slot to the end of the log, as pg_upgrade of Postgres 17 and
later demands. Stop the applications first. It returns when that is done; exit code 0 means drained. Then stop the server
while the relay goes on running: it confirms what the server writes until it is down. What is committed in between is
published as ever.

After a restart of the same server the relay goes on by itself. After an upgrade the system identifier is another one:
stop the relay, run walrelay slot adopt, and start it again. walrelay resume ends a drain that is not wanted any more.`,
		Args: noArguments,
	})
}

// requestCommand gives a command that writes a request its flag and its work. Only what leaves an event out must say why.
func (p *program) requestCommand(kind checkpoint.RequestKind, cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kind == checkpoint.Skip && strings.TrimSpace(reason) == "" {
			return &usageError{cmd.CommandPath(), errors.New("--reason: say why, for the record")}
		}
		settings, err := p.loadWithoutKafka(cmd)
		if err != nil {
			return err
		}
		ctx, stop := p.untilSignal(cmd.Context(), nil)
		defer stop()
		address, err := settings.Postgres.SQL()
		if err != nil {
			return err
		}
		conn, err := pgx.ConnectConfig(ctx, address)
		if err != nil {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server notices either way
		slot, _ := settings.Postgres.Names(address.Database)
		return p.request(ctx, conn, slot, kind, strings.Join(args, ""), reason)
	}
	return cmd
}

// request writes a request and says what became of it.
func (p *program) request(ctx context.Context, conn *pgx.Conn, slot string, kind checkpoint.RequestKind, event, reason string) error {
	outcome, err := ask(ctx, conn, slot, kind, event, reason)
	if err == nil {
		_, err = fmt.Fprintln(p.out, outcome)
	}
	return err
}

// ask writes a request and waits for what becomes of it: a while, or for a drain as long as a relay is there.
func ask(ctx context.Context, conn *pgx.Conn, slot string, kind checkpoint.RequestKind, event, reason string) (outcome string, err error) {
	id, err := checkpoint.Ask(ctx, conn, slot, kind, event, reason)
	if err != nil {
		return "", err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(outcomeWait)
	for time.Now().Before(deadline) {
		outcome, err := checkpoint.Outcome(ctx, conn, id)
		if err != nil || outcome != "" {
			return outcome, err
		}
		if kind == checkpoint.Drain {
			holder, err := replication.Holder(ctx, conn, slot)
			if err != nil {
				return "", err
			}
			if holder != "" {
				deadline = time.Now().Add(outcomeWait)
			}
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-ticker.C:
		}
	}
	if kind == checkpoint.Drain {
		return "", &replication.SetupError{
			Code:    fault.NotDone,
			Problem: fmt.Sprintf("asked (request %d), but no relay of slot %s runs, so that it is not drained", id, slot),
			Remedy:  "start walrelay run, which drains first, and wait until its status says drained",
		}
	}
	return fmt.Sprintf("asked (request %d); no relay of slot %s has done it yet", id, slot), nil
}
