package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/relay"
)

// told is what an operator is told of an incident, from every side.
type told struct {
	state relay.State
	// page is what the status page says, and status the command of that name.
	page, status string
	// metric is a line of /metrics, and alert what fires on it; empty: nothing that is about this.
	metric, alert string
	// log is a part of a line of the log.
	log string
	// doctor is a part of what walrelay doctor says; empty: it has nothing to say.
	doctor string
}

// stage is where one incident plays: a database, a broker that can be stopped, a relay.
type stage struct {
	*testing.T
	theatre *theatre
	server  *pgtest.Server
	url     string
	kafka   *kfake.Cluster
	port    int    // of the broker
	dir     string // its records
	environ []string
	relay   *walrelay
	events  int // that were inserted
}

// theatre is what all stages share.
type theatre struct {
	rulecheck string // the program
	browser   *browser
	look      sync.Mutex // one stage at a time uses the browser
}

func openTheatre(t *testing.T) *theatre {
	t.Helper()
	th := &theatre{rulecheck: filepath.Join(t.TempDir(), "rulecheck"), browser: openBrowser(t)}
	cmd := exec.Command("go", "build", "-o", th.rulecheck, ".")
	cmd.Dir = "../deploy/rulecheck"
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build rulecheck: %v\n%s", err, said)
	}
	return th
}

// set makes a stage; the relay is not launched yet.
func (th *theatre) set(t *testing.T, server *pgtest.Server) *stage {
	t.Helper()
	ports, err := process.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, theatre: th, server: server, url: server.Database(t), port: ports[0], dir: t.TempDir()}
	s.startKafka()
	t.Cleanup(func() { s.kafka.Close() })
	pgtest.Exec(t, s.url, outboxSQL)
	s.environ = append(relaytest.Variables(s.url, []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))}), relaytest.AnyPort, "WALRELAY_ON_STOP=wait")
	return s
}

func (s *stage) startKafka() {
	s.Helper()
	cluster, err := kafkatest.LaunchFake(s.dir, kfake.Ports(s.port))
	if err != nil {
		s.Fatal(err)
	}
	s.kafka = cluster
}

// run launches the relay and waits until it is ready.
func (s *stage) run(more ...string) *walrelay {
	s.Helper()
	w := launch(s.T, append(slices.Clone(s.environ), more...), "run")
	w.findPages(s.T)
	w.awaitReady(s.T)
	return w
}

// insert commits n more events.
func (s *stage) insert(n int) {
	s.Helper()
	pgtest.Exec(s.T, s.url, fmt.Sprintf(`INSERT INTO outbox SELECT gen_random_uuid(), 'order', gen_random_uuid(), 'Created', '{}' FROM generate_series(1, %d)`, n))
	s.events += n
}

// writeLog makes the server write so many segments of log that are not ours.
func (s *stage) writeLog(segments int) {
	s.Helper()
	for range segments {
		pgtest.Exec(s.T, s.url, `SELECT pg_logical_emit_message(true, 'foreign', 'x')`, `SELECT pg_switch_wal()`)
	}
}

// delivered waits until every event is in Kafka, and sees that each is there once.
func (s *stage) delivered() {
	s.Helper()
	awaitWithin(s.T, 3*patience, 200*time.Millisecond, fmt.Sprintf("%d events in Kafka", s.events), func() error {
		records, err := kafkatest.ReadAll(s.Context(), s.kafka.ListenAddrs(), "outbox.event.order")
		if err == nil && len(records) < s.events {
			err = fmt.Errorf("%d", len(records))
		}
		if err == nil && len(records) > s.events {
			s.Fatalf("%d records of %d events", len(records), s.events)
		}
		return err
	})
}

// typed runs the binary as an operator types it, and returns all that it says.
func (s *stage) typed(args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), binary, args...)
	cmd.Env = append(relaytest.WithoutOurs(os.Environ()), s.environ...)
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return string(said)
}

// tells checks that every side says the same.
func (s *stage) tells(want told) {
	s.Helper()
	status := s.awaitState(want.state)
	await(s.T, "metric "+want.metric, func() error { return s.shows(want.metric) })
	s.fires(want.alert)
	s.relay.awaitLine(s.T, want.log)
	if said := s.typed("status", "--url", "http://"+s.relay.Pages()); !strings.Contains(said, want.status) || !strings.Contains(said, string(want.state)+" for ") {
		s.Errorf("walrelay status does not say %q:\n%s", want.status, said)
	}
	if said := s.typed("doctor"); want.doctor != "" && !strings.Contains(said, want.doctor) {
		s.Errorf("walrelay doctor does not say %q:\n%s", want.doctor, said)
	}
	s.theatre.look.Lock()
	defer s.theatre.look.Unlock()
	b := s.theatre.browser
	in(b, "open", chromedp.Navigate("http://"+s.relay.Pages()+"/"))
	b.sees("state", string(want.state))
	b.sees("top", want.page)
	in(b, "leave", chromedp.Navigate("about:blank")) // the relay may end, which the page would complain of
	if s.Failed() {
		s.Logf("status: %+v", status)
	}
}

func (s *stage) awaitState(want relay.State) (status relay.Status) {
	s.Helper()
	awaitWithin(s.T, 3*patience, 50*time.Millisecond, "state "+string(want), func() (err error) {
		if status, err = s.relay.status(); err == nil && status.State != want {
			err = fmt.Errorf("%s: %s", status.State, status.Reason)
		}
		return err
	})
	return status
}

func (s *stage) shows(metric string) error {
	_, body, err := s.relay.page("/metrics")
	if err == nil && !strings.Contains(body, "\n"+metric+"\n") {
		err = errors.New("not there")
	}
	return err
}

// always are alerts that say nothing of an incident: no server of a test bounds its slots.
var always = []string{"WalrelaySlotUnlimited"}

// fires checks that an alert fires on what the relay shows, were that to last; with "" that none does.
func (s *stage) fires(alert string) {
	s.Helper()
	await(s.T, "alert "+alert, func() error {
		_, body, err := s.relay.page("/metrics")
		if err != nil {
			return err
		}
		file := filepath.Join(s.TempDir(), "exposition")
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			return err
		}
		out, err := exec.Command(s.theatre.rulecheck, "fires", "../deploy/prometheus/alerts.yaml", file).Output()
		if err != nil {
			return err
		}
		var firing []string
		if err := json.Unmarshal(out, &firing); err != nil {
			return err
		}
		firing = slices.DeleteFunc(firing, func(name string) bool { return slices.Contains(always, name) })
		if alert == "" && len(firing) > 0 || alert != "" && !slices.Contains(firing, alert) {
			return fmt.Errorf("firing: %v", firing)
		}
		return nil
	})
}

// well checks that the incident is over: the relay streams, is ready, and all events are in Kafka.
func (s *stage) well() {
	s.Helper()
	s.insert(3)
	awaitWithin(s.T, 3*patience, 50*time.Millisecond, "ready", func() error {
		status, err := s.relay.status()
		if err == nil && !status.Ready {
			err = errors.New(status.Unready)
		}
		return err
	})
	s.delivered()
	s.fires("")
}
