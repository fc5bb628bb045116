package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// trial is one example under its kills.
type trial struct {
	*stage
	name          string
	shop, billing string // URLs of the databases of service and consumer
	brokers       string
	address       string // of the service
	service       *worker
	relay         *worker
	consumer      *worker
}

// try runs an example and returns what was seen in one line.
func (s *stage) try(ctx context.Context, e example, kills int) (summary string, err error) {
	service, consumer, dir, err := e.prepare(ctx, s)
	if err != nil {
		return "", err
	}
	kafka, err := kafkatest.Launch(ctx, kafkatest.Options{FastJVM: true, Progress: progress})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	t := &trial{stage: s, name: e.name, brokers: strings.Join(kafka.Bootstrap(), ",")}
	if err := t.databases(ctx); err != nil {
		return "", err
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return "", err
	}
	t.address = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	t.service = t.worker("orders", dir, service, "DATABASE_URL="+t.shop, fmt.Sprintf("PORT=%d", ports[0]))
	t.consumer = t.worker("billing", dir, consumer, "DATABASE_URL="+t.billing, "KAFKA_BROKERS="+t.brokers)
	t.relay = t.worker("relay", dir, []string{s.binary(), "run"},
		"WALRELAY_POSTGRES_URL="+t.shop, "WALRELAY_KAFKA_BROKERS="+t.brokers, "WALRELAY_HTTP_LISTEN=off")
	defer t.stop()
	if err := t.begin(ctx); err != nil {
		return "", t.withLogs(err)
	}
	summary, err = t.underKills(ctx, kills)
	return summary, t.withLogs(err)
}

// databases makes one for the service and one for the consumer.
func (t *trial) databases(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, t.postgres.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the server notices
	for _, name := range []string{"shop_" + t.name, "billing_" + t.name} {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
			return err
		}
	}
	t.shop, t.billing = t.postgres.URL("shop_"+t.name), t.postgres.URL("billing_"+t.name)
	return nil
}

// begin starts everything. The service comes first: it makes its tables, which may have the outbox among them.
func (t *trial) begin(ctx context.Context) error {
	if err := t.service.start(); err != nil {
		return err
	}
	if err := t.awaitService(ctx); err != nil {
		return err
	}
	if err := command(ctx, t.dir, t.binary(), "init", "--postgres-url", t.shop); err != nil {
		return err
	}
	if err := command(ctx, t.dir, t.binary(), "init", "--schema-only", "--postgres-url", t.billing); err != nil {
		return err
	}
	return errors.Join(t.relay.start(), t.consumer.start())
}

// underKills kills service, relay and consumer in turn while clients order, each as soon as something has happened since the
// last kill, and audits the databases at the end.
func (t *trial) underKills(ctx context.Context, kills int) (string, error) {
	l := newLoad(t.address)
	ordering, stop := context.WithCancel(ctx)
	defer stop()
	group, failed := errgroup.WithContext(ctx)
	for i := range clients {
		group.Go(func() error { return l.client(ordering, i) })
	}
	victims := []*worker{t.service, t.relay, t.consumer}
	for n := range kills {
		if err := t.awaitProgress(failed, l); err != nil {
			stop()
			return "", errors.Join(err, group.Wait())
		}
		if err := victims[n%len(victims)].replace(); err != nil {
			return "", err
		}
	}
	stop()
	if err := group.Wait(); err != nil {
		return "", err
	}
	if err := l.finish(ctx); err != nil {
		return "", err
	}
	result, err := t.audit(ctx, l)
	return fmt.Sprintf("%d kills of service, relay and consumer; %s", kills, result), err
}

func (t *trial) worker(name, dir string, command []string, environ ...string) *worker {
	return &worker{name: name, dir: dir, command: command, environ: environ, log: filepath.Join(t.dir, t.name+"-"+name+".log")}
}

func (t *trial) stop() {
	for _, w := range []*worker{t.consumer, t.relay, t.service} {
		w.kill()
	}
}

// withLogs adds what the programs said last to an error.
func (t *trial) withLogs(err error) error {
	if err == nil {
		return nil
	}
	for _, w := range []*worker{t.service, t.relay, t.consumer} {
		err = fmt.Errorf("%w\n--- %s said:\n%s", err, w.name, w.said())
	}
	return err
}
