package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// relayVariable makes this program the relay; its value is a relaySpec in JSON.
const relayVariable = "WALRELAY_DEMO_RELAY"

const slot = "walrelay_demo"

// typeHeader is the header with the event's type.
const typeHeader = "eventType"

// defaultPrefix is what the relay makes topics with unless told otherwise. On the user's brokers the demo's topics begin
// with foreignPrefix: nobody must take its orders for real ones.
const (
	defaultPrefix = "outbox.event."
	foreignPrefix = "demo.outbox.event."
)

// relaySpec tells the child process what to relay.
type relaySpec struct {
	Postgres string
	Brokers  []string
	Prefix   string // of the topics
}

// config is the relay's: all defaults, but for the names and a header with the event's type.
func (s relaySpec) config() relay.Config {
	return relay.Config{
		Postgres: replication.Config{URL: s.Postgres, Slot: slot},
		Kafka:    kafka.Config{Brokers: s.Brokers, ClientID: slot},
		Tables: []relay.Table{{Name: outboxTable, Route: router.Config{
			Route:      router.Routing{Replacement: s.Prefix + "${routedByValue}"},
			Placements: []string{"type:header:" + typeHeader},
		}}},
	}
}

// setUp makes publication and slot, as walrelay init does. Rows that an earlier run has left stay where they are.
func (s relaySpec) setUp(ctx context.Context) error {
	_, err := replication.Setup(ctx, s.config().Postgres, replication.SetupOptions{
		Tables: []string{outboxTable}, Init: true, Existing: replication.SkipExisting,
	})
	return err
}

// relayMain is the child process. It relays until SIGTERM, says on standard error what is wrong, and returns the exit
// code.
func relayMain(text string) int {
	var spec relaySpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = relay.New(spec.config(), warnings(), prometheus.NewRegistry()).Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	return 0
}

func warnings() *zap.Logger {
	c := zap.NewDevelopmentConfig()
	c.Level.SetLevel(zap.WarnLevel)
	c.DisableCaller, c.DisableStacktrace = true, true
	log, err := c.Build()
	if err != nil {
		return zap.NewNop() // the relay's end is told without it
	}
	return log
}

// relayProcess is the relay that runs now.
type relayProcess struct {
	spec relaySpec
	*process.Process
}

// start starts the child process.
func (r *relayProcess) start() error {
	spec, err := json.Marshal(r.spec)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), relayVariable+"="+string(spec))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	started, err := process.Start(cmd)
	if err == nil {
		r.Process = started
	}
	return err
}

// restart kills the relay and starts it again.
func (r *relayProcess) restart() error {
	if err := r.Kill(); err != nil {
		return err
	}
	return r.start()
}

// stop lets the relay drain.
func (r *relayProcess) stop(ctx context.Context) error {
	if err := r.Stop(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	return r.ended()
}

// ended is an error unless the relay, which must have ended, did so in order.
func (r *relayProcess) ended() error {
	if err := r.Err(); err != nil {
		return fmt.Errorf("the relay has ended (%w); what it said stands above", err)
	}
	return nil
}

// awaitStreaming waits until the relay has taken the slot.
func (r *relayProcess) awaitStreaming(ctx context.Context, conn *pgx.Conn) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		var active bool
		err := conn.QueryRow(ctx, `SELECT active FROM pg_replication_slots WHERE slot_name = $1`, slot).Scan(&active)
		if err != nil || active {
			return err
		}
		select {
		case <-poll.C:
		case <-r.Done():
			return fmt.Errorf("the relay has ended (%v) before it took the slot", r.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// withdraw removes what would burden the user's server: a slot that nobody reads holds back the log.
func withdraw(ctx context.Context, conn *pgx.Conn) error {
	if err := replication.DropSlot(ctx, conn, slot); err != nil {
		return err
	}
	for _, statement := range []string{
		`DROP PUBLICATION IF EXISTS ` + slot,
		`DELETE FROM walrelay.checkpoint WHERE slot = '` + slot + `'`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(statement), err)
		}
	}
	return nil
}
