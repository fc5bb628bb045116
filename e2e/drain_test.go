package e2e

import (
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
)

// TestDrain stops the relay in the middle of the work, several times: what is under way is finished and saved, so that the
// next start neither repeats anything nor has to look for it.
func TestDrain(t *testing.T) {
	t.Parallel()
	kafka := kafkatest.Shared(t, 1)
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, workload.SQL)
	environ := append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort)
	w := launch(t, environ, "run")
	w.awaitLine(t, `"relay is streaming"`)
	load := startWorkload(t, url, 1)
	for range 4 {
		w.awaitPublishing(t)
		if said := w.Said(); strings.Contains(said, "unclean stop") {
			t.Errorf("it takes the stop before for an unclean one:\n%s", said)
		}
		checkStop(t, w, url)
		w = launch(t, environ, "run")
	}
	finish(t, load)
	w.awaitConfirmed(t, url)
	checkStop(t, w, url)
	report := auditTopics(t, url, kafka.Bootstrap())
	if report.Inserted == 0 || report.Lost.Count+report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
		t.Error(report)
	}
}
