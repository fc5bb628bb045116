package bench

import (
	"context"
	"fmt"
)

var latencyColumns = []column{
	{"reached/s", reached, ""}, {"p50 ms", p50, ""}, {"p99 ms", p99, ""}, {"p99.9 ms", p999, ""}, {"max ms", longest, ""}, {"confirmed p50 s", confirmP50, ""},
	{"p99 s", confirmP99, ""}, {"CPU %", loadCPU, ""}, {"CPU µs", cpuEach, ""}, {"idle CPU %", idleCPU, ""}, {"idle WAL kB/h", idleWAL, ""},
	{"idle RSS MiB", idleRSS, ""}, {"RSS MiB", peakRSS, ""}, {"other s", otherCPU, ""},
}

// mostTransactions is how many transactions a second a load commits at most: with each row in one of its own, the machine is
// busy with commits alone at some 8,000 a second.
const mostTransactions = 1000

// rowsInTransactionAt is how many rows a transaction of a load has.
func rowsInTransactionAt(rate int) int { return max(1, rate/mostTransactions) }

// latencies lets relays take turns at each rate. The first rate has the idle phase.
func latencies(list ...program) func(context.Context, *stage, Options, *Section) error {
	return func(ctx context.Context, s *stage, o Options, section *Section) error {
		if err := s.warmLoop(ctx, o.WarmLoop); err != nil {
			return err
		}
		for _, rate := range o.Rates {
			for range o.Runs {
				for _, p := range list {
					if !o.takesPart(p) {
						continue
					}
					if err := s.latencyAt(ctx, o, rate, p, section); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
}

func (s *stage) latencyAt(ctx context.Context, o Options, rate int, p program, section *Section) error {
	warm, idle := warmUpJVM, o.Idle
	if p.name == walrelay.name || p.polls {
		warm = warmUp
	}
	if rate != o.Rates[0] {
		idle = 0
	}
	name := number(float64(rate)) + "/s"
	if n := rowsInTransactionAt(rate); n > 1 {
		name += fmt.Sprintf(", %d rows/tx", n)
	}
	f, err := s.undisturbed(name, p.name, latencyColumns, func() (figures, error) {
		return s.latency(ctx, p, rate, warm, idle, o.Load)
	})
	if err != nil {
		return err
	}
	section.add(name, p.name, f)
	return nil
}
