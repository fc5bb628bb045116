package e2e

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/internal/workload"
)

// TestSeveralRelays follows docs/scaling.md: under load, one relay is replaced by two, each with a slot and a publication
// that has half of the keys. One of them is killed. Every event is there once, those of a key in order, and neither takes
// the other's records for its own.
func TestSeveralRelays(t *testing.T) {
	t.Parallel()
	kafka := kafkatest.Start(t, kafkatest.Options{FastJVM: true}) // its topics are those of other tests
	url := pgtest.Shared(t, "17").Database(t)
	pgtest.Exec(t, url, workload.SQL)
	db := connect(t, url)
	common := append(relaytest.Variables(url, kafka.Bootstrap()), relaytest.AnyPort)
	one := launch(t, common, "run")
	one.awaitLine(t, `"relay is streaming"`)
	load := startWorkload(t, url, 1)
	one.awaitPublishing(t)

	for i := range 2 {
		pgtest.Exec(t, url, fmt.Sprintf(`CREATE PUBLICATION walrelay_part_%d FOR TABLE outbox WHERE ((hashtext(aggregateid) & 1) = %d)
			WITH (publish = 'insert', publish_via_partition_root = true)`, i, i))
	}
	var name string
	query(t, db, `SELECT 'walrelay_' || current_database()`, &name)
	await(t, "the slot is past the publications", func() error {
		var past bool
		pgtest.Exec(t, url, `CHECKPOINT`)
		query(t, db, fmt.Sprintf(`SELECT bool_and(age(p.xmin) > age(s.catalog_xmin)) FROM pg_replication_slots s, pg_publication p
			WHERE slot_name = '%s' AND pubname LIKE 'walrelay\_part\_%%'`, name), &past)
		if !past {
			return errors.New("not yet")
		}
		return nil
	})
	one.stop(t)
	var relays [2]*walrelay
	var environs [2][]string
	for i := range relays {
		part := fmt.Sprintf("%s_%d", name, i)
		pgtest.Exec(t, url, fmt.Sprintf(`SELECT pg_copy_logical_replication_slot('%s', '%s')`, name, part))
		environs[i] = append(common[:len(common):len(common)], "WALRELAY_POSTGRES_SLOT="+part, fmt.Sprintf("WALRELAY_POSTGRES_PUBLICATION=walrelay_part_%d", i))
		adopted := launch(t, environs[i], "slot", "adopt")
		if code := adopted.exit(t, patience); code != 0 {
			t.Fatalf("slot adopt: exit code %d:\n%s", code, adopted.Said())
		}
		relays[i] = launch(t, environs[i], "run")
	}
	pgtest.Exec(t, url, fmt.Sprintf(`SELECT pg_drop_replication_slot('%s')`, name))
	pgtest.Exec(t, url, fmt.Sprintf(`DELETE FROM walrelay.checkpoint WHERE slot = '%s'`, name))
	for range 3 {
		relays[0].awaitPublishing(t)
		relays[1].awaitPublishing(t)
		check(t, relays[0].Signal(syscall.SIGKILL))
		relays[0].exit(t, time.Minute)
		relays[0] = launch(t, environs[0], "run")
	}
	relays[0].awaitPublishing(t)
	finish(t, load)
	for i, w := range relays {
		w.awaitConfirmed(t, url)
		if said := w.Said(); strings.Contains(said, "that Postgres has lost") {
			t.Errorf("relay %d takes the other one's events for lost ones:\n%s", i, said)
		}
		w.stop(t)
	}
	report := auditTopics(t, url, kafka.Bootstrap())
	if report.Inserted == 0 || report.Lost.Count+report.Duplicated.Count+report.Reordered.Count+report.Foreign.Count > 0 {
		t.Error(report)
	}
}
