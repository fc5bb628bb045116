package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/walrelay/walrelay/internal/kafkatest"
)

// Options say how much is measured.
type Options struct {
	// PostgresBin is the folder of PostgreSQL's programs.
	PostgresBin string
	// Rows100 and Rows1 are the sizes of the datasets with 100 rows and with one row in a transaction.
	Rows100, Rows1 int
	// Runs of each dataset by each program.
	Runs int
	// Rate of single-row transactions a second, during Load, for the latency.
	Rate int
	Load time.Duration
	// Idle is how long the idle relay is watched.
	Idle time.Duration
	// Profile is a folder for what perf records of each drain by the relay; empty: none. Profiled figures are not to be
	// published, since recording costs CPU itself.
	Profile string
}

// Result is the last line of the output. Ratios compare walrelay's events a second (first to last append in Kafka) with
// pg_recvlogical's on the same data; figures of the drains are medians.
type Result struct {
	Ratio100 float64 `json:"ratio_recvlogical_100"`
	Ratio1   float64 `json:"ratio_recvlogical_1"`
	CPU100   float64 `json:"cpu_us_100"`   // of the relay, per event
	CPU1     float64 `json:"cpu_us_1"`     //
	RSS      float64 `json:"rss_mib"`      // highest of all drains
	P50      float64 `json:"p50_ms_1k"`    // COMMIT's answer to consumer
	P99      float64 `json:"p99_ms_1k"`    //
	Idle     float64 `json:"idle_cpu_pct"` // of one core
	Other    float64 `json:"other_cpu_s"`  // of the rest of the machine, over all that is counted
}

// spareRuns bounds how many disturbed runs are repeated, and so the time that a benchmark takes on a busy machine.
const spareRuns = 4

// Quick measures and writes a report for a person and, as its last line, the Result as JSON.
func Quick(ctx context.Context, o Options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "walrelay-bench-")
	if err != nil {
		return err
	}
	s := &stage{dir: dir, out: out, spare: spareRuns, profiles: o.Profile}
	defer func() {
		err = errors.Join(err, s.close(), os.RemoveAll(dataFolder(dir)))
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			err = fmt.Errorf("%w\nthe logs are in %s", err, dir)
		}
	}()
	if err := s.open(ctx, o); err != nil {
		return err
	}
	var result Result
	if err := s.drains(ctx, o, &result); err != nil {
		return err
	}
	if err := s.latencies(ctx, o, &result); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// open builds the relay and starts the servers.
func (s *stage) open(ctx context.Context, o Options) (err error) {
	if err := os.Chmod(s.dir, 0o755); err != nil { // the account postgres works below it
		return err
	}
	if s.server, err = startPostgres(ctx, o.PostgresBin, s.dir); err != nil {
		return err
	}
	s.kafka, err = kafkatest.Launch(ctx, kafkatest.Options{Nodes: 1, HeapMB: 1024, Progress: func(line string) { fmt.Fprintln(s.out, line) }})
	if err != nil {
		return err
	}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...)); err != nil {
		return err
	}
	s.binary, err = buildRelay(ctx, s.dir, o.Profile != "")
	return err
}

func (s *stage) close() error {
	var errs []error
	if s.client != nil {
		s.client.Close()
	}
	if s.kafka != nil {
		errs = append(errs, s.kafka.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.stop())
	}
	return errors.Join(errs...)
}

// drains lets both programs read both datasets.
func (s *stage) drains(ctx context.Context, o Options, result *Result) error {
	fmt.Fprintf(s.out, "%-22s %11s %11s %8s %8s %10s %9s %8s\n", "rows in a transaction", "events/s", "from start", "CPU µs", "RSS MiB",
		"sender µs", "broker µs", "other s")
	for _, size := range []struct {
		rows, perTx int
		ratio, cpu  *float64
	}{{o.Rows100, 100, &result.Ratio100, &result.CPU100}, {o.Rows1, 1, &result.Ratio1, &result.CPU1}} {
		d, err := load(ctx, s.server, size.rows, size.perTx)
		if err != nil {
			return err
		}
		limits, relays, err := s.alternate(ctx, d, o.Runs)
		if err != nil {
			return err
		}
		if err := d.close(ctx); err != nil {
			return err
		}
		*size.ratio = round(median(relays, run.rate) / median(limits, run.rate))
		*size.cpu = round(median(relays, run.microsEach))
		for _, r := range relays {
			result.RSS = max(result.RSS, round(r.peakRSS))
		}
		for _, r := range slices.Concat(limits, relays) {
			result.Other += r.otherCPU
		}
		fmt.Fprintf(s.out, "%-22s %11.2f\n\n", fmt.Sprintf("%3d ratio of medians", size.perTx), *size.ratio)
	}
	return nil
}

// alternate lets pg_recvlogical and walrelay take turns at a dataset.
func (s *stage) alternate(ctx context.Context, d *dataset, runs int) (limits, relays []run, err error) {
	for range runs {
		limit, err := s.undisturbed(ctx, "pg_recvlogical", d, s.receive)
		if err != nil {
			return nil, nil, fmt.Errorf("pg_recvlogical: %w", err)
		}
		relay, err := s.undisturbed(ctx, "walrelay", d, s.drain)
		if err != nil {
			return nil, nil, fmt.Errorf("walrelay: %w", err)
		}
		limits, relays = append(limits, limit), append(relays, relay)
	}
	return limits, relays, nil
}

// undisturbed makes a run. While the rest of the machine was busy it spends what is left of the spare runs on another try;
// the least disturbed one counts.
func (s *stage) undisturbed(ctx context.Context, name string, d *dataset, once func(context.Context, *dataset) (run, error)) (best run, err error) {
	for first := true; first || best.disturbed() && s.spare > 0; first = false {
		if !first {
			s.spare--
		}
		r, err := once(ctx, d)
		if err != nil {
			return best, err
		}
		verdict := ""
		if r.disturbed() {
			verdict = " disturbed"
		}
		events := float64(r.rows)
		fmt.Fprintf(s.out, "%3d %-18s %11.0f %11.0f %8.2f %8.1f %10.2f %9.2f %8.2f%s\n", r.perTx, name, r.rate(), events/r.total.Seconds(),
			r.microsEach(), r.peakRSS, r.walsenderCPU*1e6/events, r.brokerCPU*1e6/events, r.otherCPU, verdict)
		if first || r.otherCPU < best.otherCPU {
			best = r
		}
	}
	return best, nil
}

// latencies watches the idle relay and then a gentle load.
func (s *stage) latencies(ctx context.Context, o Options, result *Result) error {
	l, err := s.latency(ctx, o.Rate, o.Idle, o.Load)
	if err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	result.P50, result.P99 = millis(l.p50), millis(l.p99)
	result.Idle = round(l.idleCPU * 100)
	result.Other = round(result.Other + l.otherCPU)
	verdict := ""
	if l.rate < 0.95*float64(o.Rate) {
		verdict = fmt.Sprintf(" (%d were wanted: the machine is too busy)", o.Rate)
	}
	fmt.Fprintf(s.out, "%.0f single-row transactions/s%s: p50 %.2f ms, p99 %.2f ms, max %.2f ms from COMMIT to consumer; other CPU %.2f s in %.0f s\n"+
		"idle: %.2f %% of a core\n\n", l.rate, verdict, result.P50, result.P99, millis(l.max), l.otherCPU, l.loaded, result.Idle)
	return nil
}

// median of a figure of some runs; of two in the middle it is the lower.
func median(runs []run, figure func(run) float64) float64 {
	var values []float64
	for _, r := range runs {
		values = append(values, figure(r))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

func millis(d time.Duration) float64 { return round(float64(d.Microseconds()) / 1000) }

func round(x float64) float64 { return math.Round(x*100) / 100 }
