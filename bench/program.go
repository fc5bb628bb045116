package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/debezium"
	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/lsn"
)

// limit is the name of the program that publishes nothing and shows what the server can send.
const limit = "pg_recvlogical"

// program is a relay that is measured. start gets it going on a job.
type program struct {
	name  string
	polls bool // reads outbox_polled, and no slot
	start func(ctx context.Context, s *stage, j job) (*running, error)
}

var (
	walrelay = program{name: "walrelay", start: startWalrelay}
	polling  = program{name: "polling, SKIP LOCKED", polls: true, start: startPolling}

	debeziumDefault = program{name: "Debezium " + debezium.Version, start: func(ctx context.Context, s *stage, j job) (*running, error) {
		return startDebezium(ctx, s, j, debezium.Options{}, "-Xms256M", "-Xmx2G") // as in connect-standalone.sh
	}}
	debeziumTuned = program{name: "Debezium, tuned", start: func(ctx context.Context, s *stage, j job) (*running, error) {
		return startDebezium(ctx, s, j, debezium.Options{
			Worker: map[string]string{"offset.flush.interval.ms": "1000"},
			Connector: map[string]string{
				"max.batch.size": "16384", "max.queue.size": "65536", "poll.interval.ms": "20", "heartbeat.interval.ms": "1000",
				"status.update.interval.ms": "1000", "producer.override.linger.ms": "5", "producer.override.batch.size": "524288",
				"producer.override.buffer.memory": "67108864", "producer.override.compression.type": "lz4",
			},
		}, "-Xms256m", "-Xmx1g")
	}}
	comparators = []program{debeziumDefault, debeziumTuned, polling}
)

// job is what a relay has to read.
type job struct {
	database, slot string
	publication    string   // empty: the usual one
	tables         []string // empty: outbox
	environ        []string // more variables for walrelay
}

// running is a relay at work.
type running struct {
	*process.Process
	name    string
	log     string // file
	clean   bool   // it ends by SIGTERM with exit code 0
	started time.Time
}

// alive returns an error when the relay has ended.
func (r *running) alive() error {
	if r.Running() {
		return nil
	}
	return fmt.Errorf("%s ended: %v; its log:\n%s", r.name, r.Err(), tail(r.log))
}

// stop ends the relay with SIGTERM.
func (r *running) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.Stop(ctx, syscall.SIGTERM); err != nil && !r.clean { // Debezium now and then takes minutes
		return r.Kill()
	} else if err != nil {
		return errors.Join(err, r.Kill())
	}
	if err := r.Err(); err != nil && r.clean {
		return fmt.Errorf("%s: %w; its log:\n%s", r.name, err, tail(r.log))
	}
	return nil
}

// tail is the end of a log.
func tail(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Appendf(nil, "(cannot be read: %v)", err)
	}
	return text[max(0, len(text)-4096):]
}

// startWalrelay starts walrelay on a slot that it has not made: it gets the checkpoint row that init would have written.
func startWalrelay(ctx context.Context, s *stage, j job) (*running, error) {
	url := s.server.url(j.database)
	if err := adopt(ctx, url, j.slot); err != nil {
		return nil, err
	}
	pub := publication
	if j.publication != "" {
		pub = j.publication
	}
	cmd := exec.Command(s.walrelay, "run")
	cmd.Env = append(withoutOurs(os.Environ()),
		"WALRELAY_POSTGRES_URL="+url,
		"WALRELAY_POSTGRES_SLOT="+j.slot,
		"WALRELAY_POSTGRES_PUBLICATION="+pub,
		"WALRELAY_KAFKA_BROKERS="+strings.Join(s.kafka.Bootstrap(), ","),
		"WALRELAY_HTTP_LISTEN=127.0.0.1:0",
	)
	if len(j.tables) > 0 {
		cmd.Env = append(cmd.Env, "WALRELAY_TABLES=public."+strings.Join(j.tables, ",public."))
	}
	cmd.Env = append(cmd.Env, j.environ...)
	return s.launch("walrelay", cmd)
}

func startPolling(_ context.Context, s *stage, j job) (*running, error) {
	return s.launch("polling relay", exec.Command(s.polling, "-url", s.server.url(j.database), "-broker", s.kafka.Bootstrap()[0]))
}

// launch starts a program that ends cleanly, with a log of its own.
func (s *stage) launch(name string, cmd *exec.Cmd) (*running, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd.Stdout, cmd.Stderr = log, log
	r := &running{name: name, log: log.Name(), clean: true, started: time.Now()}
	r.Process, err = process.Start(cmd)
	return r, err
}

func startDebezium(ctx context.Context, s *stage, j job, o debezium.Options, flags ...string) (*running, error) {
	var err error
	if o.Dir, err = s.folder(); err != nil {
		return nil, err
	}
	o.Bootstrap, o.Port, o.Database, o.Slot, o.Publication, o.Table = s.kafka.Bootstrap(), s.server.port, j.database, j.slot, publication, "public.outbox"
	o.Progress = s.say
	w, err := debezium.New(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &running{name: "Debezium", log: w.Path("log"), started: time.Now()}
	err = w.Start(flags...)
	r.Process = w.Process
	return r, err
}

// adopt writes the checkpoint row of a slot that walrelay has not made.
func adopt(ctx context.Context, url, slot string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	position, err := ask[string](ctx, url, `SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1`, slot)
	if err != nil {
		return fmt.Errorf("read the position of slot %s: %w", slot, err)
	}
	consistent, err := lsn.ParseEnd(position)
	if err != nil {
		return err
	}
	store := checkpoint.NewStore(checkpoint.Always(config))
	return errors.Join(store.Create(ctx, slot), store.MarkReady(ctx, checkpoint.Row{Slot: slot, LSN: consistent, ProducerID: checkpoint.NoProducer}), store.Close(ctx))
}

// withoutOurs drops the variables that would configure walrelay, or its connection as libpq has them.
func withoutOurs(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "WALRELAY_") && !strings.HasPrefix(entry, "PG") {
			kept = append(kept, entry)
		}
	}
	return kept
}
