package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/faultconn"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
	"github.com/walrelay/walrelay/lsn"
)

const (
	database = "postgres"
	slot     = "walrelay_postgres"
	// walSenderTimeout is the relay's, the least that it takes.
	walSenderTimeout = 5 * time.Second
	// recovery is how long something may take that ought to take a moment.
	recovery = 2 * time.Minute
)

// arena is what a round takes place in.
type arena struct {
	dir, binary string
	postgres    *pgtest.Server
	kafka       *kafkatest.Cluster
	// The relay reaches the servers through these.
	toPostgres *faultconn.Proxy
	toKafka    map[int32]*faultconn.Proxy
	closers    []func() error

	// relay is the one that works, or will. Only the strike at the relay touches it, and between cycles the round.
	relay    *relaytest.Process
	launched int
	// alone: nothing else happens in this cycle. published: a record is in Kafka.
	alone, published bool
	// takeover is the time in this cycle from a kill, with everything else well, to the next relay's first record.
	takeover time.Duration
	standstill
}

// enter starts the servers and the first relay. The caller must leave, also after an error.
func (a *arena) enter(ctx context.Context, g ground) error {
	var err error
	a.postgres, err = pgtest.Launch(ctx, pgtest.Options{Version: g.Postgres, Dir: filepath.Join(a.dir, "postgres"),
		Settings: map[string]string{"log_replication_commands": "on"}})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, a.postgres.Close)
	if a.toPostgres, err = a.proxy(fmt.Sprintf("127.0.0.1:%d", a.postgres.Port())); err != nil {
		return err
	}
	if a.kafka, err = a.launchKafka(ctx, g.Brokers); err != nil {
		return err
	}
	a.closers = append(a.closers, a.kafka.Close)
	conn, err := pgx.Connect(ctx, a.postgres.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is lost by that
	if _, err := conn.Exec(ctx, workload.SQL+";"+workload.PartitionsSQL); err != nil {
		return err
	}
	if a.relay, err = a.launch(); err != nil {
		return err
	}
	limit, cancel := a.within(ctx, recovery)
	defer cancel()
	return a.relay.AwaitLine(limit, `"relay is streaming"`) // the slot must be there before the first row
}

func (a *arena) proxy(target string) (*faultconn.Proxy, error) {
	p, err := faultconn.NewProxy(target)
	if err == nil {
		a.closers = append(a.closers, p.Close)
	}
	return p, err
}

// launchKafka puts a proxy before each broker.
func (a *arena) launchKafka(ctx context.Context, brokers int) (*kafkatest.Cluster, error) {
	a.toKafka = map[int32]*faultconn.Proxy{}
	var failed error
	cluster, err := kafkatest.Launch(ctx, kafkatest.Options{
		Nodes: brokers, Dir: filepath.Join(a.dir, "kafka"), HeapMB: 256, FastJVM: true,
		Advertise: func(node int32, address string) string {
			p, err := a.proxy(address)
			if err != nil {
				failed = err
				return address
			}
			a.toKafka[node] = p
			return p.Address()
		},
	})
	return cluster, errors.Join(err, failed)
}

// leave ends everything. Each thing is asked to, whatever happens to the others.
func (a *arena) leave() error {
	var errs []error
	for n := len(a.closers) - 1; n >= 0; n-- {
		errs = append(errs, a.closers[n]())
	}
	return errors.Join(errs...)
}

// launch starts a relay. It ends with the arena at the latest.
func (a *arena) launch() (*relaytest.Process, error) {
	var brokers []string
	for _, p := range a.toKafka {
		brokers = append(brokers, p.Address())
	}
	url := fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", a.toPostgres.Address(), database)
	environ := append(relaytest.Variables(url, brokers), relaytest.AnyPort,
		"WALRELAY_TABLES=public.outbox,public.outbox_parts",
		"WALRELAY_POSTGRES_WAL_SENDER_TIMEOUT="+walSenderTimeout.String(),
		"WALRELAY_KAFKA_REQUEST_TIMEOUT=2s", // an answer that is lost costs the cycle so much
		"WALRELAY_KAFKA_DIAL_TIMEOUT=2s",
		"WALRELAY_KAFKA_HALT_RETRY=1s",
		"WALRELAY_DRAIN_TIMEOUT=3s")
	if a.launched++; a.launched%2 == 0 {
		// The position is saved while Kafka is away, too: it must not hold what was not acknowledged. Every other relay keeps
		// the default of a second, so that its successor finds more that was not saved.
		environ = append(environ, "WALRELAY_CHECKPOINT_SAVE_INTERVAL=100ms")
	}
	r, err := relaytest.Launch(a.binary, filepath.Join(a.dir, fmt.Sprintf("relay-%03d.log", a.launched)), environ, "run")
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, r.Kill)
	return r, nil
}

// caughtUp waits until what is in the log now is acknowledged.
func (a *arena) caughtUp(ctx context.Context) error {
	ctx, cancel := a.within(ctx, recovery)
	defer cancel()
	end, err := a.logEnd(ctx)
	if err != nil {
		return err
	}
	err = relaytest.Await(ctx, func() error {
		s, err := a.relay.Status(ctx)
		if err != nil {
			return err
		}
		confirmed, err := lsn.ParseEnd(s.Confirmed)
		if err == nil && confirmed < end {
			err = fmt.Errorf("at %v of %v, %d in flight, %s %s", confirmed, end, s.InFlight, s.State, s.Reason)
		}
		return err
	}, a.relay)
	if err != nil {
		return fmt.Errorf("the relay does not catch up: %w", err)
	}
	return nil
}

// logEnd is the end of the server's log.
func (a *arena) logEnd(ctx context.Context) (lsn.End, error) {
	conn, err := pgx.Connect(ctx, a.postgres.URL(database))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is lost by that
	var text string
	if err := conn.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&text); err != nil {
		return 0, err
	}
	return lsn.ParseEnd(text)
}

// newDir makes the folder of a round, which the account of the database server can enter.
func newDir(seed uint64) (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("walrelay-chaos-%d", seed))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o755)
}
