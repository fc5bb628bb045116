package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/walrelay/walrelay/internal/audit"
)

// summary is the result of a run, and the last line with -json.
type summary struct {
	Inserted   int `json:"inserted"`
	Delivered  int `json:"delivered"`
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	Reordered  int `json:"reordered"`
	// P50 and P99 are percentiles of the time from commit to consumer, in milliseconds; 0 without a delivery.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// summarise leaves the foreign records out: on the user's own brokers, earlier runs have left theirs.
func summarise(r audit.Report, latencies []time.Duration) summary {
	slices.Sort(latencies)
	return summary{
		Inserted:   r.Inserted,
		Delivered:  r.Delivered,
		Lost:       r.Lost.Count,
		Duplicated: r.Duplicated.Count,
		Reordered:  r.Reordered.Count,
		P50:        milliseconds(percentile(latencies, 50)),
		P99:        milliseconds(percentile(latencies, 99)),
	}
}

// percentile is that of the nearest rank; 0 without values.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*p+99)/100-1]
}

// milliseconds rounds to hundredths.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(10*time.Microsecond)) / 100
}

func (s summary) clean() bool { return s.Lost == 0 && s.Duplicated == 0 && s.Reordered == 0 }

func (s summary) String() string {
	return fmt.Sprintf("inserted %d, delivered %d, lost %d, duplicated %d, reordered %d; commit to consumer p50 %v ms, p99 %v ms",
		s.Inserted, s.Delivered, s.Lost, s.Duplicated, s.Reordered, s.P50, s.P99)
}
