package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// QuickOptions say how much Quick measures.
type QuickOptions struct {
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
	// Warm and WarmLoop are as in Options.
	Warm, WarmLoop time.Duration
	// Profile is as in Options.
	Profile string
}

// Result is the last line of Quick's output. Ratios compare walrelay's events a second (first to last append in Kafka) with
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

// Quick measures what matters most, walrelay beside pg_recvlogical, and writes a report for a person and, as its last line,
// the Result as JSON.
func Quick(ctx context.Context, o QuickOptions, out io.Writer) (err error) {
	s, end, err := newStage(ctx, o.PostgresBin, o.Profile, out)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	if err := s.warm(ctx, o.Warm); err != nil {
		return err
	}
	s.spare = 4
	var result Result
	section := &Section{}
	for _, w := range []workload{
		{name: "100 rows/tx", rows: o.Rows100, perTx: 100},
		{name: "1 row/tx", rows: o.Rows1, perTx: 1},
	} {
		if err := s.alternate(ctx, Options{Runs: o.Runs, Scale: 1}, w, []program{recvlogical, walrelay}, section); err != nil {
			return err
		}
	}
	result.drains(section)
	s.say("\n" + part{columns: drainColumns}.table(section))
	if err := s.warmLoop(ctx, o.WarmLoop); err != nil {
		return err
	}
	f, err := s.latency(ctx, walrelay, o.Rate, warmUp, o.Idle, o.Load)
	if err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	s.tell(fmt.Sprintf("%d/s", o.Rate), walrelay.name, latencyColumns, f)
	result.P50, result.P99, result.Idle = hundredths(f[p50]), hundredths(f[p99]), hundredths(f[idleCPU])
	result.Other = hundredths(result.Other + f[otherCPU])
	return json.NewEncoder(out).Encode(result)
}

func (r *Result) drains(s *Section) {
	against := func(workload string) float64 {
		return hundredths(s.median(workload, walrelay.name, eventsPerSecond) / s.median(workload, limit, eventsPerSecond))
	}
	r.Ratio100, r.Ratio1 = against("100 rows/tx"), against("1 row/tx")
	r.CPU100 = hundredths(s.median("100 rows/tx", walrelay.name, cpuEach))
	r.CPU1 = hundredths(s.median("1 row/tx", walrelay.name, cpuEach))
	for _, l := range s.Lines {
		if l.Program == walrelay.name {
			r.RSS = max(r.RSS, hundredths(l.Figures[peakRSS].Max))
		}
		for _, run := range l.runs {
			r.Other += run[otherCPU]
		}
	}
}

func hundredths(x float64) float64 { return math.Round(x*100) / 100 }
