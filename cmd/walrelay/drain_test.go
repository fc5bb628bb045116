package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// drain returns when it is done. Without a relay it must not look as if it were: the next command may stop the server.
func TestDrain(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{
		"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(kafkatest.Fake(t).ListenAddrs(), ","),
	}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	if got := walrelay(t, environ, "init"); got.code != exitStopped {
		t.Fatalf("init: %+v", got)
	}
	got := walrelay(t, environ, "drain", "--reason", "upgrade")
	if got.code != exitPerson || !oneLineWith(got.err, "walrelay: ", "request 1", "no relay of slot", "walrelay run") {
		t.Errorf("without a relay: %+v", got)
	}
	cmd, output, _ := start(t, environ)
	await(t, "what was asked for before", func() bool { return strings.Contains(output.String(), "drained: everything up to") })
	got = walrelay(t, environ, "drain", "--reason", "upgrade")
	if got.code != exitStopped || !oneLineWith(got.out, "drained: everything up to ", "stop the server") {
		t.Errorf("with a relay: %+v", got)
	}
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		t.Errorf("exit: %v\n%s", err, output)
	}
	if got := walrelay(t, environ, "skip", "0000002a:0/10:5:1"); got.code != exitConfiguration || !strings.Contains(got.err, "--reason") {
		t.Errorf("skip without a reason: %+v", got)
	}
}
