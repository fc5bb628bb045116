package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// stage is what the runs need: the servers, the relay's binary, and a folder for logs.
type stage struct {
	dir    string
	out    io.Writer // lines for a person
	server *postgres
	kafka  *kafkatest.Cluster
	client *kgo.Client // for questions to Kafka
	binary string
	slots  int // made so far
	spare  int // runs that may still be repeated

	profiles string // folder for what perf records; empty: nothing is
}

// run is what one drain of a dataset has shown.
type run struct {
	rows, perTx  int
	span         time.Duration // first to last: append to Kafka, or for pg_recvlogical begin and end of the stream
	total        time.Duration // from the start of the process
	cpu          time.Duration // of the process, to its end
	peakRSS      float64       // MiB
	walsenderCPU float64       // seconds, here and below
	brokerCPU    float64
	otherCPU     float64 // of everything but the process, the servers and this program
}

func (r run) rate() float64       { return float64(r.rows) / r.span.Seconds() }
func (r run) microsEach() float64 { return float64(r.cpu.Microseconds()) / float64(r.rows) }

// disturbed tells whether the rest of the machine used more than a tenth of a core. Times come in hundredths of a second,
// so a little says nothing.
func (r run) disturbed() bool { return r.otherCPU > max(0.2, 0.1*r.total.Seconds()) }

// used is the CPU time of the machine and of our parts of it.
type used struct{ machine, postgres, broker, self float64 }

func (s *stage) used() (used, error) {
	machine, err := busy()
	own, reaped := cpu(os.Getpid())
	broker, _ := cpu(s.kafka.Pid(1))
	return used{machine, familyCPU(s.server.process.Pid()), broker, own + reaped}, err
}

// other is what the rest of the machine has used since before, while the process under test used ours.
func (u used) other(before used, ours float64) float64 {
	return u.machine - before.machine - (u.postgres - before.postgres) - (u.broker - before.broker) - (u.self - before.self) - ours
}

// slot makes a copy of a dataset's slot. What was written before is flushed first, so that each run begins alike.
func (s *stage) slot(ctx context.Context, d *dataset) (string, error) {
	syscall.Sync()
	s.slots++
	name := fmt.Sprintf("bench_%d", s.slots)
	return name, d.copySlot(ctx, name)
}

// drain lets walrelay publish a dataset and checks what has arrived.
func (s *stage) drain(ctx context.Context, d *dataset) (result run, err error) {
	result = run{rows: d.rows, perTx: d.perTx}
	if err := freshTopic(ctx, s.kafka, true); err != nil {
		return result, err
	}
	slot, err := s.slot(ctx, d)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, dropSlot(ctx, d.url(), slot)) }()
	if err := adopt(ctx, d.url(), slot); err != nil {
		return result, err
	}
	if err := s.publish(ctx, d, slot, &result); err != nil {
		return result, err
	}
	records, err := kafkatest.ReadAll(ctx, s.kafka.Bootstrap(), topic)
	if err != nil {
		return result, err
	}
	return result, verify(records, d.rows)
}

// publish runs walrelay on a slot until all rows are in Kafka, and measures.
func (s *stage) publish(ctx context.Context, d *dataset, slot string, result *run) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	started := time.Now()
	relay, err := startRelay(s.binary, d.url(), slot, s.kafka.Bootstrap(), s.dir)
	if err != nil {
		return err
	}
	defer relay.process.Kill() // after stop it finds nothing
	endProfile, err := s.profile(fmt.Sprintf("%d-%s", d.perTx, slot), relay.pid())
	if err != nil {
		return err
	}
	defer endProfile()
	sender, err := walsender(ctx, d.url(), slot, relay.alive)
	if err != nil {
		return err
	}
	if err := awaitRecords(ctx, s.client, d.rows, relay.alive); err != nil {
		return err
	}
	after, err := s.used()
	if err != nil {
		return err
	}
	ours, _ := cpu(relay.pid())
	result.otherCPU, result.brokerCPU = after.other(before, ours), after.broker-before.broker
	result.walsenderCPU, _ = cpu(sender)
	if result.peakRSS, err = peakRSS(relay.pid()); err != nil {
		return err
	}
	if result.cpu, err = relay.stop(); err != nil {
		return err
	}
	first, last, err := appends(ctx, s.client)
	result.span, result.total = last.Sub(first), last.Sub(started)
	return err
}

// receive lets pg_recvlogical read a dataset to its end and throw it away.
func (s *stage) receive(ctx context.Context, d *dataset) (result run, err error) {
	result = run{rows: d.rows, perTx: d.perTx}
	slot, err := s.slot(ctx, d)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, dropSlot(ctx, d.url(), slot)) }()
	log, err := os.Create(filepath.Join(s.dir, slot+".log"))
	if err != nil {
		return result, err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(filepath.Join(s.server.bin, "pg_recvlogical"), "--dbname", d.url(), "--slot", slot, "--start", "--no-loop",
		"--file", os.DevNull, "--fsync-interval", "0", "--status-interval", "1", "--endpos", d.end,
		"--option", "proto_version=1", "--option", "publication_names="+publication)
	cmd.Stdout, cmd.Stderr = log, log

	before, err := s.used()
	if err != nil {
		return result, err
	}
	started := time.Now()
	p, err := process.Start(cmd)
	if err != nil {
		return result, err
	}
	defer p.Kill() // after its end it finds nothing
	if err := s.watch(ctx, d, slot, p, &result); err != nil {
		return result, fmt.Errorf("%w; see %s", err, log.Name())
	}
	result.total = time.Since(started)
	after, err := s.used()
	if err != nil {
		return result, err
	}
	result.cpu = cpuOf(cmd)
	result.otherCPU = after.other(before, 0) // the process has ended and is counted as our reaped child
	return result, nil
}

// watch waits for the end of pg_recvlogical and measures the stream.
func (s *stage) watch(ctx context.Context, d *dataset, slot string, p *process.Process, result *run) error {
	sender, err := walsender(ctx, d.url(), slot, func() error {
		if !p.Running() {
			return fmt.Errorf("pg_recvlogical ended: %v", p.Err())
		}
		return nil
	})
	if err != nil {
		return err
	}
	began := time.Now()
	sample := time.NewTicker(20 * time.Millisecond)
	defer sample.Stop()
	for {
		select {
		case <-p.Done():
			result.span = time.Since(began)
			return errors.Join(p.Err(), reaped(ctx, sender))
		case <-sample.C:
			if own, _ := cpu(sender); own > 0 {
				result.walsenderCPU = own
			}
			if rss, err := peakRSS(p.Pid()); err == nil {
				result.peakRSS = rss
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
