package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// run is what one program has shown at a dataset.
type run struct {
	rows   int
	span   time.Duration // first to last: append to Kafka, or for pg_recvlogical begin and end of the stream
	total  time.Duration // from the start of the process
	cpu    float64       // seconds, here and below; of the process
	sender float64       // of Postgres's process that sends
	server float64       // of all of Postgres
	broker float64
	other  float64 // of everything but the process, the servers and this program
	rss    float64 // peak, MiB
	wal    int64   // bytes of log written meanwhile
}

// rate: brokers tell times in milliseconds, so a few rows may have taken none.
func (r run) rate() float64       { return float64(r.rows) / max(r.span, time.Millisecond).Seconds() }
func (r run) microsEach() float64 { return r.cpu * 1e6 / float64(r.rows) }

// figures are what is kept of the run.
func (r run) figures() figures {
	each := 1 / float64(r.rows)
	return figures{
		eventsPerSecond: r.rate(), fromStart: float64(r.rows) / r.total.Seconds(), cpuEach: r.microsEach(), peakRSS: r.rss,
		senderEach: r.sender * 1e6 * each, serverEach: r.server * 1e6 * each, brokerEach: r.broker * 1e6 * each,
		walEach: float64(r.wal) * each, otherCPU: r.other, seconds: r.total.Seconds(), cpuTotal: r.cpu, senderTotal: r.sender,
	}
}

// drain lets a relay publish a dataset and checks what has arrived.
func (s *stage) drain(ctx context.Context, d *dataset, p program) (result run, err error) {
	if p.name == limit {
		return s.receive(ctx, d)
	}
	result = run{rows: d.rows}
	t := s.topics(d.workload)
	if err := t.renew(ctx, true); err != nil {
		return result, err
	}
	j := job{database: d.database, environ: d.environ, tables: d.outboxes()}
	if p.polls {
		result.rows = max(d.rows/10, 1) // it is slow
		if err := s.refill(ctx, d, result.rows); err != nil {
			return result, err
		}
	} else {
		if j.slot, err = s.slot(ctx, d); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, dropSlot(ctx, d.url(), j.slot)) }()
	}
	if err := s.publish(ctx, d, p, j, &result); err != nil {
		return result, err
	}
	return result, t.verify(ctx, result.rows)
}

// warm keeps the broker busy, unmeasured, with requests of all sizes.
func (s *stage) warm(ctx context.Context, during time.Duration) error {
	if during == 0 {
		return nil
	}
	d, err := s.load(ctx, workload{name: "warm up", rows: 100_000, perTx: 1})
	if err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < during; {
		if _, err := s.drain(ctx, d, walrelay); err != nil {
			return fmt.Errorf("warm the broker: %w", err)
		}
	}
	return d.close(ctx)
}

// refill makes the table of the polling relay anew.
func (s *stage) refill(ctx context.Context, d *dataset, rows int) error {
	return execute(ctx, d.url(), fmt.Sprintf(`TRUNCATE outbox_polled; CALL place_polled(1, %d); ANALYZE outbox_polled; CHECKPOINT`, rows))
}

// publish runs a relay until all rows are in Kafka, and measures.
func (s *stage) publish(ctx context.Context, d *dataset, p program, j job, result *run) error {
	wal0, err := s.written(ctx)
	if err != nil {
		return err
	}
	before, err := s.used()
	if err != nil {
		return err
	}
	relay, err := p.start(ctx, s, j)
	if err != nil {
		return err
	}
	defer relay.Kill() // after stop it finds nothing
	endProfile, err := s.profile(fmt.Sprintf("%d-%s", d.perTx, j.slot), relay.Pid())
	if err != nil {
		return err
	}
	defer endProfile()
	sender := 0
	if j.slot != "" {
		if sender, err = walsender(ctx, d.url(), j.slot, relay.alive); err != nil {
			return err
		}
	}
	t := s.topics(d.workload)
	if err := t.await(ctx, result.rows, relay.alive); err != nil {
		return err
	}
	after, err := s.used()
	if err != nil {
		return err
	}
	result.cpu, _ = cpu(relay.Pid())
	result.other, result.broker = after.other(before, result.cpu), after.broker-before.broker
	result.sender, _ = cpu(sender)
	result.server = after.postgres - before.postgres
	if result.rss, err = vmHWM(relay.Pid()); err != nil {
		return err
	}
	wal1, err := s.written(ctx)
	if err != nil {
		return err
	}
	result.wal = wal1 - wal0
	if err := relay.stop(); err != nil {
		return err
	}
	first, last, err := t.appends(ctx)
	result.span, result.total = max(last.Sub(first), time.Millisecond), last.Sub(relay.started) // append times are in milliseconds
	return err
}

// recvlogical reads from a slot for ever, and throws it away.
func (s *stage) recvlogical(url, slot string) *exec.Cmd {
	return exec.Command(filepath.Join(s.server.bin, limit), "--dbname", url, "--slot", slot, "--start", "--no-loop",
		"--file", os.DevNull, "--fsync-interval", "0", "--status-interval", "1",
		"--option", "proto_version=1", "--option", "publication_names="+publication)
}

// receive lets pg_recvlogical read a dataset to its end and throw it away.
func (s *stage) receive(ctx context.Context, d *dataset) (result run, err error) {
	result = run{rows: d.rows}
	slot, err := s.slot(ctx, d)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, dropSlot(ctx, d.url(), slot)) }()
	cmd := s.recvlogical(d.url(), slot)
	cmd.Args = append(cmd.Args, "--endpos", d.end)
	if d.messages {
		cmd.Args = append(cmd.Args, "--option", "messages=true")
	}
	before, err := s.used()
	if err != nil {
		return result, err
	}
	started := time.Now()
	p, err := s.launch(limit, cmd)
	if err != nil {
		return result, err
	}
	defer p.Kill() // after its end it finds nothing
	if err := s.watch(ctx, d, slot, p, &result); err != nil {
		return result, fmt.Errorf("%w; see %s", err, p.log)
	}
	result.total = time.Since(started)
	after, err := s.used()
	if err != nil {
		return result, err
	}
	result.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	result.server = after.postgres - before.postgres
	result.other = after.other(before, 0) // the process has ended and is counted as our reaped child
	return result, nil
}

// watch waits for the end of pg_recvlogical and measures the stream.
func (s *stage) watch(ctx context.Context, d *dataset, slot string, p *running, result *run) error {
	sender, err := walsender(ctx, d.url(), slot, p.alive)
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
				result.sender = own
			}
			if rss, err := vmHWM(p.Pid()); err == nil {
				result.rss = rss
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// recvlogical is what only reads. A drain runs it in a way of its own, see receive.
var recvlogical = program{name: limit, start: func(_ context.Context, s *stage, j job) (*running, error) {
	return s.launch(limit, s.recvlogical(s.server.url(j.database), j.slot))
}}
