package main

import (
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
)

// A dead letter is looked at, mended, and brought back.
func TestReplay(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	environ := []string{
		"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ","), "WALRELAY_ON_POISON=dead_letter",
		"WALRELAY_DEAD_LETTER_TOPIC=dead",
	}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	cmd, output, _ := start(t, environ)
	await(t, "streaming", func() bool { return strings.Contains(output.String(), `"streaming"`) })
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES (1, NULL, 'o-1', 't', 'x')`, `INSERT INTO outbox VALUES (2, NULL, 'o-2', 't', 'x')`)
	await(t, "two dead letters", func() bool {
		records, err := kafkatest.ReadAll(t.Context(), brokers, "dead")
		return err == nil && len(records) == 2
	})
	got := walrelay(t, environ, "replay", "--all", "--dry-run")
	if got.code != exitDifferences || !strings.HasPrefix(got.out, "2 dead letters: 0 would be brought back") ||
		!strings.Contains(got.out, "impossible: 2\n    id 1 (") {
		t.Errorf("before it is mended: %+v", got)
	}
	pgtest.Exec(t, url, `UPDATE outbox SET aggregatetype = 'order'`)
	got = walrelay(t, environ, "replay", "2", "3")
	if got.code != exitDifferences || !strings.HasPrefix(got.out, "1 dead letters: 1 brought back, 0 were in their topics already\n") ||
		!strings.Contains(got.out, "no such dead letter, or not chosen by the rest: 1\n    3\n") {
		t.Errorf("by id: %+v", got)
	}
	got = walrelay(t, environ, "replay", "--all", "--json")
	var report relay.ReplayReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitStopped || report.Replayed != 1 || report.Already != 1 {
		t.Errorf("all: %+v, %v", got, err)
	}
	if records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.order"); err != nil || len(records) != 2 {
		t.Errorf("%d records, %v", len(records), err)
	}

	got = walrelay(t, environ, "replay", "--from", "tables", "--again", "--key", "o-1", "--type", "t")
	if got.code != exitStopped || got.out != "1 rows: 1 published, 0 were in their topics already\n" {
		t.Errorf("once more from the table: %+v", got)
	}
	got = walrelay(t, environ, "replay", "--from", "tables", "--again", "--lsn", "..0/1", "--json")
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitStopped || report.Events != 0 || report.From != relay.FromTables {
		t.Errorf("below all positions: %+v, %v", got, err)
	}
	got = walrelay(t, environ, "replay", "--from", "tables", "77")
	if got.code != exitDifferences || !strings.Contains(got.out, "no such row, or not chosen by the rest: 1\n    77\n") {
		t.Errorf("an id that no row has: %+v", got)
	}
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		t.Errorf("exit: %v\n%s", err, output)
	}
}

func TestReplayBadInput(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=127.0.0.1:1"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"replay"}, exitConfiguration, "--all"},
		{[]string{"replay", "--all", "1"}, exitConfiguration, "leave out the ids"},
		{[]string{"replay", "--all", "--since", "1h"}, exitConfiguration, "leave out the ids"},
		{[]string{"replay", "--from", "topic", "1"}, exitConfiguration, "want dead-letters or tables"},
		{[]string{"replay", "--again", "1"}, exitConfiguration, "want --from tables"},
		{[]string{"replay", "--from", "tables", "--lsn", "0/1..", "1"}, exitConfiguration, "want --again"},
		{[]string{"replay", "--lsn", "0/1"}, exitConfiguration, "want a range such as 0/16B3748..0/1700000"},
		{[]string{"replay", "--lsn", ".."}, exitConfiguration, "want a range"},
		{[]string{"replay", "--lsn", "x..0/1"}, exitConfiguration, "want a range"},
		{[]string{"replay", "--lsn", "..0/0"}, exitConfiguration, "want a range"},
		{[]string{"replay", "--lsn", "0/2..0/1"}, exitConfiguration, "want a range"},
		{[]string{"replay", "--since", "1h", "--until", "2h"}, exitConfiguration, "earlier than"},
		{[]string{"replay", "--until", "noon"}, exitConfiguration, "--until noon: want a time"},
		{[]string{"replay", "--all"}, exitPerson, "dead_letter_topic"},
	} {
		if got := walrelay(t, environ, c.args...); got.code != c.code || !oneLineWith(got.err, "walrelay: ", c.want) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}
