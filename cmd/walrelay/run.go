package main

import (
	"context"
	"crypto/rand"
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
			c, err := p.load(cmd)
			if err != nil {
				return err
			}
			return p.run(cmd.Context(), c)
		},
	}
}

func (p *program) run(ctx context.Context, c config.Config) error {
	settings, err := c.Relay()
	if err != nil {
		return err
	}
	settings.Postgres.Instance = strings.ToLower(rand.Text()[:8])
	log := newLogger(c.Log, p.err, p.environ)

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b := thisBuild()
	registry.MustRegister(relay.BuildInfo(b.Version, b.Commit, b.Go))
	r := relay.New(settings, log, registry)
	ctx, stopListening := p.untilSignal(ctx, log)
	defer stopListening()
	return serve(ctx, c.Admin(), r, registry, log)
}

// serve relays, with the pages for probes and monitoring beside it; they stay until the relay has drained.
func serve(ctx context.Context, pages admin.Config, r *relay.Relay, registry *prometheus.Registry, log *zap.Logger) error {
	if pages.Listen == admin.Off {
		return r.Run(ctx)
	}
	listener, err := admin.Listen(pages)
	if err != nil {
		return listenError{err}
	}
	log.Info("serving health, metrics and status", zap.String("address", listener.Addr().String()))
	group, work := errgroup.WithContext(ctx)
	open, closePages := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return admin.Serve(open, listener, pages, probes(r, registry)) })
	group.Go(func() error {
		defer closePages()
		return r.Run(work)
	})
	return group.Wait()
}

func probes(r *relay.Relay, registry *prometheus.Registry) admin.Probes {
	return admin.Probes{
		Live: func() bool { return r.Status().Live },
		Ready: func() (bool, string) {
			status := r.Status()
			return status.Ready, status.Unready
		},
		Status:  func() any { return r.Status() },
		Metrics: registry,
	}
}
