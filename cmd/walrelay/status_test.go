package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
)

// The status is one screen, asks the relay, and without one the server.
func TestStatus(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	cmd, _, address := start(t, environ)
	await(t, "ready", func() bool { code, _ := get(t, address, "/readyz"); return code == 200 })
	pgtest.Exec(t, url, `INSERT INTO outbox SELECT i, 'order', 'o', 'OrderCreated', 'the payload' FROM generate_series(1, 1234) i`)

	var got result
	await(t, "the records in the status", func() bool {
		got = walrelay(t, environ, "status", "--url", "http://"+address)
		return strings.Contains(got.out, "1,234  outbox.event.order\n") && strings.Contains(got.out, " 0 events in flight")
	})
	for _, text := range []string{"relay       streaming for ", "behind      received ", "waiting     0 events in flight", "checkpoint  saved at ",
		"slot        walrelay_test_", " is reserved, streamed from (", "log kept    ", "no limit is set", "published   1,234 records to 1 topics"} {
		if !strings.Contains(got.out, text) {
			t.Errorf("no %q in\n%s", text, got.out)
		}
	}
	if got.code != exitStopped || strings.Count(got.out, "\n") > 24 || strings.Contains(got.out, "the payload") {
		t.Errorf("code %d, %d lines\n%s%s", got.code, strings.Count(got.out, "\n"), got.out, got.err)
	}
	got = walrelay(t, environ, "status", "--json", "--url", "http://"+address)
	var s standing
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || s.Relay == nil || !s.Relay.Ready || s.Relay.State != relay.Streaming || s.Error != "" {
		t.Errorf("%s: %v", got.out, err)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got = walrelay(t, environ, "status", "--url", "http://"+address)
	if got.code != exitStopped || !strings.Contains(got.out, "relay       does not answer at http://"+address) || !strings.Contains(got.out, "is reserved, nobody streams from it") {
		t.Errorf("without the relay: code %d\n%s%s", got.code, got.out, got.err)
	}
	got = walrelay(t, []string{"WALRELAY_POSTGRES_URL=postgres://u:secret@127.0.0.1:1/d"}, "status", "--json", "--url", "http://127.0.0.1:1")
	if got.code != exitUnexpected || strings.Contains(got.out+got.err, "secret") || !strings.Contains(got.err, "neither the relay nor the server answers") {
		t.Errorf("without both: code %d\n%s%s", got.code, got.out, got.err)
	}
}

// status --watch shows it anew until Ctrl-C.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	cmd, output := child(t.Context(), []string{"WALRELAY_POSTGRES_URL=" + url}, "status", "--watch", "--url", "http://127.0.0.1:1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "two screens", func() bool { return strings.Count(output.String(), "\x1b[H\x1b[2J") >= 2 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v\n%s", err, output)
	}
}

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{"0.0.0.0:9187": "127.0.0.1:9187", ":9187": "127.0.0.1:9187", "[::]:1": "127.0.0.1:1", "10.0.0.1:2": "10.0.0.1:2", "box:3": "box:3"} {
		if got := reachable(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0 ms", 1500 * time.Microsecond: "1 ms", 2500 * time.Millisecond: "2.5 s",
		61 * time.Second: "1 min 1 s", 3*time.Hour + 4*time.Minute: "3 h 4 min", 50 * time.Hour: "2 d 2 h"} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
