package e2e

import (
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/internal/workload"
)

// startWorkload writes events until finish; the test ends it at the latest.
func startWorkload(t *testing.T, url string, seed uint64) *workload.Writers {
	w := workload.Start(t.Context(), url, workload.Options{Seed: seed, Writers: 4, Pause: 10 * time.Millisecond, Mix: workload.Basic})
	t.Cleanup(func() { _ = w.Finish() }) // the server may be gone
	return w
}

// finish ends the writers.
func finish(t *testing.T, w *workload.Writers) {
	t.Helper()
	check(t, w.Finish())
}

// auditTopics compares the table with the topics.
func auditTopics(t *testing.T, url string, brokers []string) audit.Report {
	t.Helper()
	report, err := workload.Audit(t.Context(), url, brokers)
	check(t, err)
	return report
}
