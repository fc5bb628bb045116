package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
)

// oldest is the commit whose checkpoint row and records must be read: the first with the identities of today. Once there are
// releases, the one before takes its place.
const oldest = "bc49c20"

// TestUpgrade: an older version is killed while it publishes, and the new one goes on from its row and its records, with
// nothing missing and nothing twice. A rolling update does just this.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old := buildOld(t)
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Shared(t, 1).Bootstrap()
	pgtest.Exec(t, url, outboxSQL)
	environ := append(relaytest.Variables(url, brokers), relaytest.AnyPort)
	before, err := relaytest.Launch(old, filepath.Join(t.TempDir(), "output"), environ, "run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = before.Kill() }) // it has ended by then
	await(t, "the old version streams", func() error {
		return errors.Join(before.Ended(), said(before, `"relay is streaming"`))
	})
	insert := func(n int) {
		pgtest.Exec(t, url, fmt.Sprintf(`INSERT INTO outbox SELECT gen_random_uuid(), 'upgrade', 'key', 'T', jsonb_build_object('n', i) FROM generate_series(%d, %d) i`, n, n+499))
	}
	insert(0)
	await(t, "the old version publishes", func() error { return before.HasPublished(t.Context()) })
	insert(500)
	if err := before.Kill(); err != nil {
		t.Fatal(err)
	}
	insert(1000)

	if code := launch(t, environ, "init").exit(t, patience); code != 0 { // brings the tables of schema walrelay up to date
		t.Fatalf("init: exit code %d", code)
	}
	w := launch(t, environ, "run")
	w.awaitLine(t, `"relay is streaming"`)
	insert(1500)
	await(t, "all records, once and in order", func() error {
		records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.upgrade")
		if err != nil || len(records) < 2000 {
			return errors.Join(err, fmt.Errorf("%d records", len(records)))
		}
		return nil
	})
	w.stop(t)
	records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.upgrade")
	if err != nil || len(records) != 2000 {
		t.Fatalf("%d records, want 2000 (%v)", len(records), err)
	}
	for i, record := range records {
		if want := fmt.Sprintf(`{"n": %d}`, i); string(record.Value) != want {
			t.Fatalf("record %d is %s, want %s", i, record.Value, want)
		}
	}
}

func said(p *relaytest.Process, text string) error {
	if said := p.Said(); !strings.Contains(said, text) {
		return fmt.Errorf("it has not said %s", text)
	}
	return nil
}

// buildOld builds the older version out of the history.
func buildOld(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "old.tar")
	if out, err := exec.Command("git", "-C", "..", "archive", "-o", archive, oldest).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no commit %s to upgrade from; CI must fetch the history: %v\n%s", oldest, err, out)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED without the history: %s: %s", t.Name(), out)
		t.Skipf("no commit %s", oldest)
	}
	for _, command := range [][]string{{"tar", "-xf", archive}, {"go", "build", "-trimpath", "-o", "walrelay", "./cmd/walrelay"}} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return filepath.Join(dir, "walrelay")
}
