package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
	"github.com/walrelay/walrelay/relay"
)

// maxTakeover is how long after the death of the active relay the next one publishes at the latest.
const maxTakeover = 2 * time.Second

// TestHotStandby kills the active one of two relays again and again, under load.
func TestHotStandby(t *testing.T) {
	takeovers := 4
	if long() {
		takeovers = 20
	}
	seed := seedOf(t)
	d := deploy(t, seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var took []time.Duration
	for range takeovers {
		d.active.killAfter(t, time.Duration(rng.Int64N(int64(200*time.Millisecond))))
		killed := time.Now()
		d.standby.awaitPublishing(t)
		took = append(took, time.Since(killed))
		d.active, d.standby = d.standby, d.another(t)
	}
	slices.Sort(took)
	t.Logf("%d times the other one published after the kill: median %v, longest %v", takeovers,
		took[takeovers/2].Round(time.Millisecond), took[takeovers-1].Round(time.Millisecond))
	if took[takeovers-1] > maxTakeover {
		t.Errorf("it took %v, more than %v", took[takeovers-1], maxTakeover)
	}
	d.audit(t)
}

// TestRollingDeploy replaces both relays as an orchestrator does, which stops an old one only when a new one is ready. A
// standby that waits for the slot has to be ready, or it would wait for ever.
func TestRollingDeploy(t *testing.T) {
	d := deploy(t, seedOf(t))
	for range 2 { // twice all of it: the standby is replaced first, then the active one
		for _, old := range []**walrelay{&d.standby, &d.active} {
			fresh := d.another(t)
			(*old).stop(t)
			*old = fresh
		}
		await(t, "one of the two streams", func() error {
			if d.role(d.standby) == relay.Streaming {
				d.active, d.standby = d.standby, d.active
			}
			if d.role(d.active) != relay.Streaming || d.role(d.standby) != relay.Standby {
				return fmt.Errorf("%s and %s", d.role(d.active), d.role(d.standby))
			}
			return nil
		})
	}
	d.audit(t)
}

// deployment is two relays on one slot, and applications at work.
type deployment struct {
	url             string
	brokers         []string
	load            *workload.Writers
	active, standby *walrelay
}

func deploy(t *testing.T, seed uint64) *deployment {
	t.Helper()
	kafka := kafkatest.Start(t, kafkatest.Options{FastJVM: true})
	d := &deployment{url: pgtest.Shared(t, "").Database(t), brokers: kafka.Bootstrap()}
	pgtest.Exec(t, d.url, workload.SQL)
	d.active = launch(t, d.environ(), "run")
	d.active.awaitLine(t, `"relay is streaming"`)
	d.load = startWorkload(t, d.url, seed)
	d.active.awaitPublishing(t)
	d.standby = d.another(t)
	return d
}

func (d *deployment) environ() []string {
	return append(relaytest.Variables(d.url, d.brokers), relaytest.AnyPort)
}

// another starts a relay and waits until it stands by, and is ready.
func (d *deployment) another(t *testing.T) *walrelay {
	t.Helper()
	w := launch(t, d.environ(), "run")
	w.findPages(t)
	await(t, "the relay stands by", func() error {
		if role := d.role(w); role != relay.Standby {
			return errors.Join(w.Ended(), fmt.Errorf("it is %s", role))
		}
		return nil
	})
	if code, body, err := w.page("/readyz"); code != http.StatusOK {
		t.Fatalf("/readyz of a standby: %d %s %v", code, body, err)
	}
	return w
}

func (d *deployment) role(w *walrelay) relay.State {
	s, err := w.status()
	if err != nil {
		return relay.State(err.Error())
	}
	return s.State
}

// audit ends the load and compares.
func (d *deployment) audit(t *testing.T) {
	t.Helper()
	finish(t, d.load)
	d.active.awaitConfirmed(t, d.url)
	report := auditTopics(t, d.url, d.brokers)
	if report.Inserted == 0 || report.Lost.Count+report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
		t.Error(report)
	}
	t.Log(report)
}
