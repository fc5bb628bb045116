package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/internal/debezium"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
)

// takeOverResult is what takeover/result.json says of the last run.
type takeOverResult struct {
	Date         string         `json:"date"`
	Commit       string         `json:"commit"`
	Debezium     string         `json:"debezium"`
	Postgres     string         `json:"postgres"`
	Seed         uint64         `json:"seed"`
	Transactions map[string]int `json:"transactions"`
	Inserted     int            `json:"inserted"`
	Delivered    int            `json:"delivered"`
	Lost         int            `json:"lost"`
	Reordered    int            `json:"reordered"`
	Foreign      int            `json:"foreign"`
	// Records by who has published them, and repeated records by who has published the repetition.
	ByDebezium           int `json:"published_by_debezium"`
	ByWalrelay           int `json:"published_by_walrelay"`
	DuplicatedByDebezium int `json:"duplicated_by_debezium"`
	DuplicatedByWalrelay int `json:"duplicated_by_walrelay"`
	// Matched are the events that Debezium had published and not confirmed, and walrelay has recognised: in the run that
	// was killed, and in the next one, which is sent some of them again.
	Matched [2]int `json:"matched_by_id"`
}

// TestTakeOver follows docs/takeover.md with a real Debezium: under load, with Debezium killed, started again and killed
// for good, and walrelay killed in the middle of what Debezium may have published.
func TestTakeOver(t *testing.T) {
	if os.Getenv("WALRELAY_TAKEOVER") != "1" {
		fmt.Fprintln(os.Stderr, "SKIPPED without WALRELAY_TAKEOVER=1, since it takes minutes: TestTakeOver; run make takeover")
		t.Skip("WALRELAY_TAKEOVER is not 1")
	}
	kafkatest.Require(t)
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, math.MaxUint64))
	kafka := kafkatest.Start(t, kafkatest.Options{FastJVM: true})
	postgres := pgtest.Start(t, pgtest.Options{})
	url := postgres.URL("postgres")
	pgtest.Exec(t, url, workload.SQL)

	d := newDebezium(t, postgres, kafka)
	d.start(t)
	db := connect(t, url)
	awaitWithin(t, 3*time.Minute, 100*time.Millisecond, "Debezium streams", func() error { return held(t, db, true) })
	load := startWorkload(t, url, seed)
	d.awaitMore(t, kafka, 2000)
	check(t, d.Kill())
	d.start(t) // it repeats what it had not written to its offsets
	d.awaitMore(t, kafka, 2000)

	file := d.Path("walrelay.yaml")
	w := launch(t, nil, "import-debezium", d.Path("connector.properties"), "--worker", d.Path("worker.properties"), "--output", file)
	if code := w.exit(t, patience); code != 0 {
		t.Fatalf("import-debezium: exit code %d: %s", code, w.Said())
	}
	environ := []string{"WALRELAY_CONFIG=" + file, relaytest.AnyPort}
	began := time.Now()
	said := adopt(t, environ, exitPerson)
	if !strings.Contains(said, "+ publication walrelay_debezium created") || !strings.Contains(said, "leave that program running") {
		t.Fatalf("the first slot adopt: %s", said)
	}
	awaitWithin(t, 3*time.Minute, time.Second, "the slot is past the publication", func() error {
		if said = adopt(t, environ, exitPerson); !strings.Contains(said, "stop that program") {
			return errors.New(said)
		}
		return nil
	})
	t.Logf("the slot passed the publication after %v", time.Since(began).Round(time.Second))
	d.awaitMore(t, kafka, 1000+rng.Int64N(2000))
	check(t, d.Kill())
	await(t, "Postgres notices", func() error { return held(t, db, false) })
	theirs := topicsLength(t, kafka)
	said = adopt(t, environ, 0)
	t.Logf("adopted:\n%s", said)

	w = launch(t, environ, "run")
	w.awaitLine(t, `"relay is streaming"`)
	w.findPages(t)
	life := time.NewTimer(time.Duration(rng.Int64N(int64(8 * time.Second)))) // for 5 s it waits for what Debezium may still send
	<-life.C
	var matched [2]int
	matched[0] = w.suppressed(t)
	w.killAfter(t, 0)
	w = launch(t, environ, "run")
	w.awaitPublishing(t)
	awaitWithin(t, time.Minute, 500*time.Millisecond, "walrelay publishes under load", func() error {
		if n := topicsLength(t, kafka) - theirs; n < 2000 {
			return fmt.Errorf("%d records so far", n)
		}
		return nil
	})
	finish(t, load)
	w.awaitConfirmed(t, url)
	matched[1] = w.suppressed(t)
	w.stop(t)

	report := auditTopics(t, url, kafka.Bootstrap())
	result := takeOverResult{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: commit(), Debezium: debezium.Version, Postgres: postgres.Version(), Seed: seed,
		Transactions: load.Counts(), Inserted: report.Inserted, Delivered: report.Delivered, Lost: report.Lost.Count,
		Reordered: report.Reordered.Count, Foreign: report.Foreign.Count, Matched: matched,
	}
	all, err := kafkatest.ReadAll(t.Context(), kafka.Bootstrap(), workload.Topics...)
	check(t, err)
	result.count(all)
	result.write(t)
	result.judge(t, report, int(theirs))
}

// count counts records by their publisher; a repetition is a later record of the same id.
func (r *takeOverResult) count(records []kafkatest.Record) {
	first := map[string]bool{} // by id: whether the first one is Debezium's
	for _, record := range records {
		theirs := workload.Header(record, "walrelay.lsn") == ""
		_, repeated := first[workload.Header(record, "id")]
		first[workload.Header(record, "id")] = theirs
		switch {
		case theirs && repeated:
			r.DuplicatedByDebezium++
		case repeated:
			r.DuplicatedByWalrelay++
		}
		if theirs {
			r.ByDebezium++
		} else {
			r.ByWalrelay++
		}
	}
}

func (r *takeOverResult) write(t *testing.T) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", "  ")
	check(t, err, os.WriteFile("takeover/result.json", append(text, '\n'), 0o644))
	t.Logf("%s", text)
}

func (r *takeOverResult) judge(t *testing.T, report audit.Report, theirs int) {
	t.Helper()
	if r.Lost > 0 || r.Reordered > 0 || r.Foreign > 0 || r.DuplicatedByWalrelay > 0 || report.Duplicated.Count != r.DuplicatedByDebezium {
		t.Errorf("with SEED=%d: %v", r.Seed, report)
	}
	if r.ByDebezium != theirs {
		t.Errorf("%d records of Debezium were in the topics before the take-over, %d after it", theirs, r.ByDebezium)
	}
	// Otherwise it proves nothing.
	if r.Matched == [2]int{} || r.DuplicatedByDebezium == 0 || r.ByWalrelay < 500 {
		t.Errorf("%d events matched, %d repeated by Debezium, %d published by walrelay", r.Matched, r.DuplicatedByDebezium, r.ByWalrelay)
	}
}

// adopt runs slot adopt --match-by-id and returns what it has said.
func adopt(t *testing.T, environ []string, code int) string {
	t.Helper()
	w := launch(t, environ, "slot", "adopt", "--match-by-id")
	if got := w.exit(t, patience); got != code {
		t.Fatalf("slot adopt: exit code %d, want %d:\n%s", got, code, w.Said())
	}
	return w.Said()
}

// held fails unless somebody holds Debezium's slot, or nobody does.
func held(t *testing.T, db *pgx.Conn, want bool) error {
	t.Helper()
	var active bool
	query(t, db, `SELECT coalesce((SELECT active FROM pg_replication_slots WHERE slot_name = 'debezium'), false)`, &active)
	if active != want {
		return fmt.Errorf("the slot is active: %v", active)
	}
	return nil
}

var suppressedLine = regexp.MustCompile(`(?m)^walrelay_events_suppressed_total\{.*\} (\d+)$`)

// suppressed is how many events this relay has found in the topics.
func (w *walrelay) suppressed(t *testing.T) (n int) {
	t.Helper()
	_, body, err := w.page("/metrics")
	check(t, err)
	if match := suppressedLine.FindStringSubmatch(body); match != nil {
		n, err = strconv.Atoi(match[1])
		check(t, err)
	}
	return n
}

// commit is the commit of the working copy.
func commit() string {
	hash, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil || len(changes) > 0 {
		return strings.TrimSpace(string(hash)) + "-modified"
	}
	return strings.TrimSpace(string(hash))
}
