package bench

import (
	"math"
	"slices"
)

// figures are what a run has shown, by name.
type figures map[string]float64

// disturbed tells whether the rest of the machine used more than a tenth of a core. Times come in hundredths of a second,
// so a little says nothing.
func (f figures) disturbed() bool { return f[otherCPU] > max(0.2, 0.1*f[seconds]) }

// The names of figures, as they stand in the JSON.
const (
	eventsPerSecond = "events_per_s"            // first to last append
	fromStart       = "events_per_s_from_start" // of the process
	cpuEach         = "cpu_us_per_event"        // of the relay
	senderEach      = "sender_cpu_us_per_event" // of Postgres's process that sends
	serverEach      = "postgres_cpu_us_per_event"
	brokerEach      = "broker_cpu_us_per_event"
	peakRSS         = "peak_rss_mib"
	walEach         = "wal_bytes_per_event" // written while it ran
	otherCPU        = "other_cpu_s"         // of the rest of the machine
	seconds         = "s"                   // that the run took
	cpuTotal        = "cpu_s"
	senderTotal     = "sender_cpu_s"

	reached    = "commits_per_s"
	p50        = "p50_ms"
	p99        = "p99_ms"
	p999       = "p99.9_ms"
	longest    = "max_ms"
	loadCPU    = "load_cpu_pct" // of one core, here and below
	idleCPU    = "idle_cpu_pct"
	idleWAL    = "idle_wal_kb_per_hour"
	confirmP50 = "confirm_lag_p50_s"
	confirmP99 = "confirm_lag_p99_s"
	idleRSS    = "idle_rss_mib"
	deadTuples = "dead_tuples_per_event"
)

// Figure is what the runs of one program have given for one thing. Of two values in the middle the lower one is the median.
type Figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func summary(values []float64) Figure {
	slices.Sort(values)
	return Figure{round(values[(len(values)-1)/2]), round(values[0]), round(values[len(values)-1])}
}

// summarise makes one figure of each name that the runs have.
func summarise(runs []figures) map[string]Figure {
	values := map[string][]float64{}
	for _, r := range runs {
		for name, value := range r {
			values[name] = append(values[name], value)
		}
	}
	result := map[string]Figure{}
	for name, v := range values {
		result[name] = summary(v)
	}
	return result
}

// round keeps four significant digits, since no figure here is better than that.
func round(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}
