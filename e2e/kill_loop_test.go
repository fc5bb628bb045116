package e2e

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
	"github.com/walrelay/walrelay/lsn"
)

// kills is how often TestKillLoop kills the relay.
const kills = 30

// maxDuplicates is how many records may be repeated in all.
const maxDuplicates = 0

// TestKillLoop kills the relay at random moments while rows go in, restarts Postgres and Kafka in some of the cycles, and
// audits the topics against the table.
func TestKillLoop(t *testing.T) {
	began := time.Now()
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, math.MaxUint64))

	kafka := kafkatest.Start(t, kafkatest.Options{FastJVM: true, Properties: quickReturn})
	postgres := pgtest.Start(t, pgtest.Options{})
	url := postgres.URL("postgres")
	pgtest.Exec(t, url, workload.SQL)
	environ := append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort)
	first := launch(t, environ, "run") // the slot must be there before the first row
	first.awaitLine(t, `"relay is streaming"`)
	load := startWorkload(t, url, seed)

	w := first
	for cycle := range kills {
		fault := faults[cycle]
		if fault == nil {
			switch rng.IntN(3) { // how far it has come
			case 0:
			case 1:
				w.awaitLine(t, `"relay is streaming"`)
			case 2:
				w.awaitPublishing(t)
			}
			w.killAfter(t, time.Duration(rng.Int64N(int64(longestLife))))
			w = launch(t, environ, "run")
			continue
		}
		// The relay is killed while the server is away, and the next one finds it so.
		w.awaitPublishing(t)
		check(t, fault.strike(t, postgres, kafka))
		w.killAfter(t, time.Duration(rng.Int64N(int64(2*longestLife))))
		w = launch(t, environ, "run")
		check(t, fault.mend(t, postgres, kafka))
	}
	for _, fault := range []*fault{fastRestart, killKafka} { // the last one lives through them
		w.awaitPublishing(t)
		check(t, fault.strike(t, postgres, kafka), fault.mend(t, postgres, kafka))
	}
	finish(t, load)
	w.awaitConfirmed(t, url)
	w.stop(t)
	counts := load.Counts()

	report := auditTopics(t, url, kafka.Bootstrap())
	t.Logf("%d kills, %d faults of servers, transactions %v: inserted %d, delivered %d, lost %d, reordered %d, duplicated %d, foreign %d, in %v",
		kills, len(faults)+2, counts, report.Inserted, report.Delivered, report.Lost.Count, report.Reordered.Count,
		report.Duplicated.Count, report.Foreign.Count, time.Since(began).Round(time.Second))
	if report.Lost.Count > 0 || report.Reordered.Count > 0 || report.Foreign.Count > 0 || report.Duplicated.Count > maxDuplicates {
		t.Errorf("with SEED=%d: %v", seed, report)
	}
	for kind, least := range map[string]int{"one row": 100, "several keys": 50, "many rows": 3, "rollback": 20, "savepoint": 20} {
		if counts[kind] < least {
			t.Errorf("%d transactions of kind %s, want at least %d to prove something", counts[kind], kind, least)
		}
	}
}

// seedOf is the seed of a run: SEED, or another one each time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("SEED: %v", err)
		}
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// longestLife is how long a relay lives at most from the moment that it is so far. Twice as long where a
// server is away: the checkpoint is saved once a second, and must not hold what was not acknowledged.
const longestLife = 700 * time.Millisecond

// fault is something that happens to a server while the relay streams.
type fault struct {
	strike, mend func(*testing.T, *pgtest.Server, *kafkatest.Cluster) error
}

var (
	killPostgres = &fault{func(_ *testing.T, p *pgtest.Server, _ *kafkatest.Cluster) error { return p.Kill() }, startPostgres}
	fastRestart  = &fault{func(t *testing.T, p *pgtest.Server, _ *kafkatest.Cluster) error { return p.Stop(t.Context(), "fast") }, startPostgres}
	crash        = &fault{func(t *testing.T, p *pgtest.Server, _ *kafkatest.Cluster) error {
		return p.Stop(t.Context(), "immediate")
	}, startPostgres}
	killKafka   = &fault{func(_ *testing.T, _ *pgtest.Server, k *kafkatest.Cluster) error { return k.Kill(1) }, startKafka}
	stopKafka   = &fault{func(t *testing.T, _ *pgtest.Server, k *kafkatest.Cluster) error { return k.StopNode(t.Context(), 1) }, startKafka}
	freezeKafka = &fault{
		func(_ *testing.T, _ *pgtest.Server, k *kafkatest.Cluster) error { return k.Pause(1) },
		func(_ *testing.T, _ *pgtest.Server, k *kafkatest.Cluster) error { return k.Continue(1) },
	}
)

func startPostgres(t *testing.T, p *pgtest.Server, _ *kafkatest.Cluster) error {
	return p.Start(t.Context())
}
func startKafka(t *testing.T, _ *pgtest.Server, k *kafkatest.Cluster) error {
	return k.StartNode(t.Context(), 1)
}

// quickReturn lets a node that was killed come back before the cluster's usual 9 s without a sign of life have passed.
var quickReturn = map[string]string{"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "400"}

// faults are those of the kill loop, by cycle.
var faults = map[int]*fault{
	2: freezeKafka, 5: killPostgres, 8: killKafka, 11: freezeKafka, 14: fastRestart,
	17: stopKafka, 20: freezeKafka, 23: crash, 26: freezeKafka, 28: freezeKafka,
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// killAfter kills the relay when so much time has passed; until then it must live.
func (w *walrelay) killAfter(t *testing.T, life time.Duration) {
	t.Helper()
	moment := time.NewTimer(life)
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-w.Done():
		t.Fatal(w.Ended())
	}
	if err := w.Kill(); err != nil {
		t.Fatal(err)
	}
}

// awaitPublishing waits until Kafka has acknowledged something to this relay.
func (w *walrelay) awaitPublishing(t *testing.T) {
	t.Helper()
	w.findPages(t)
	await(t, "published", func() error { return w.HasPublished(t.Context()) })
}

// awaitConfirmed waits until everything that is in the log now is acknowledged.
func (w *walrelay) awaitConfirmed(t *testing.T, url string) {
	t.Helper()
	w.findPages(t)
	var text string
	query(t, connect(t, url), `SELECT pg_current_wal_lsn()::text`, &text)
	end, err := lsn.ParseEnd(text)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "all confirmed", func() error {
		s, err := w.status()
		if err != nil {
			return err
		}
		confirmed, err := lsn.ParseEnd(s.Confirmed)
		if err == nil && confirmed < end {
			err = fmt.Errorf("at %v of %v, %d in flight, %s %s", confirmed, end, s.InFlight, s.State, s.Reason)
		}
		return err
	})
}
