package main

import (
	"context"
	"crypto/rand"
	"os"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/admin"
	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/relay"
)

func (p *program) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Relay until stopped; prepares the database at its first start",
		Long: `Relay until SIGTERM or Ctrl-C. Then what is under way is acknowledged and saved (at most drain_timeout), and the exit
code is 0. A second signal ends the process at once.

Postgres or Kafka being away is no reason to end: run keeps trying, says so in the log and at /readyz, and the slot
keeps the events. It ends by itself only when a person is needed. A second walrelay with the same slot waits as hot
standby.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := p.newDaemon(cmd)
			if err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(relayGC)
			}
			return d.run(cmd.Context())
		},
	}
}

// relayGC is how much of the heap may be garbage, in percent, before it is collected. A relay makes next to none, so half of
// what is usual costs no time, and saves up to a third of its memory where there are many partitions.
const relayGC = 50

// daemon is walrelay run.
type daemon struct {
	*program
	cmd      *cobra.Command // to read the configuration again
	config   config.Config  // as it was at the start
	settings relay.Config
	level    zap.AtomicLevel
	log      *zap.Logger
	registry *prometheus.Registry
	relay    *relay.Relay
}

func (p *program) newDaemon(cmd *cobra.Command) (*daemon, error) {
	c, err := p.load(cmd)
	if err != nil {
		return nil, err
	}
	settings, err := c.Relay()
	if err != nil {
		return nil, err
	}
	settings.Postgres.Instance = strings.ToLower(rand.Text()[:8])
	d := &daemon{program: p, cmd: cmd, config: c, settings: settings, level: levelOf(c.Log), registry: prometheus.NewRegistry()}
	d.log = loggerAt(d.level, c.Log.Format, p.err, p.environ)
	b := thisBuild()
	d.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		relay.BuildInfo(b.Version, b.Commit, b.Go))
	d.relay = relay.New(settings, d.log, d.registry)
	return d, nil
}

func (d *daemon) run(ctx context.Context) error {
	ctx, stopListening := d.onSignals(ctx, d.log, d.reload)
	defer stopListening()
	return d.serve(ctx)
}

// serve relays, with the pages for people, probes and monitoring beside it; they stay until the relay has drained.
func (d *daemon) serve(ctx context.Context) error {
	group, work := errgroup.WithContext(ctx)
	open, closePages := context.WithCancel(context.WithoutCancel(ctx))
	if pages := d.config.Admin(); pages.Listen != admin.Off {
		listener, err := admin.Listen(pages)
		if err != nil {
			closePages()
			return listenError{err}
		}
		d.log.Info("serving health, metrics and status", zap.String("address", listener.Addr().String()))
		group.Go(func() error { return admin.Serve(open, listener, pages, d.probes()) })
	}
	group.Go(func() error { return newSupervisor(d.environ, d.relay.Status).run(open, ctx) })
	group.Go(func() error {
		defer closePages()
		return d.relay.Run(work)
	})
	return group.Wait()
}

func (d *daemon) probes() admin.Probes {
	return admin.Probes{
		Live: func() bool { return d.relay.Status().Live },
		Ready: func() (bool, string) {
			status := d.relay.Status()
			return status.Ready, status.Unready
		},
		Status:  func() any { return d.relay.Status() },
		Metrics: d.registry,
		Control: admin.Control{Ask: d.ask, Level: d.setLevel},
	}
}
