package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// await polls until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-poll.C:
		}
	}
}

// The whole program: two variables, a row, a record, the pages, SIGTERM, exit code 0.
func TestRun(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)

	cmd, output, address := start(t, environ)
	await(t, "ready", func() bool {
		code, _ := get(t, address, "/readyz")
		return code == http.StatusOK
	})
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES (1, 'order', 'o-1', 'OrderCreated', 'the payload')`)
	await(t, "the record", func() bool {
		records, err := kafkatest.ReadAll(t.Context(), brokers, "outbox.event.order")
		return err == nil && len(records) == 1 && string(records[0].Value) == "the payload"
	})
	if code, body := get(t, address, "/metrics"); code != http.StatusOK || !strings.Contains(body, "go_goroutines") || !strings.Contains(body, "walrelay_") {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if code, body := get(t, address, "/status"); code != http.StatusOK || !strings.Contains(body, `"slot": "walrelay_test_`) {
		t.Errorf("/status: %d %s", code, body)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v\n%s", err, output)
	}
	if t.Failed() {
		t.Log(output)
	}
	for line := range strings.Lines(output.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("not JSON, to something that is no terminal: %s", line)
		}
	}
}

// start starts run as a process and waits for the address of its pages.
func start(t *testing.T, environ []string) (cmd *exec.Cmd, output *lines, address string) {
	t.Helper()
	cmd, output = child(t.Context(), append(environ, "WALRELAY_HTTP_LISTEN=127.0.0.1:0"), "run")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the address of the pages", func() bool {
		_, rest, _ := strings.Cut(output.String(), `"address":"`)
		address, _, _ = strings.Cut(rest, `"`)
		return address != ""
	})
	return cmd, output, address
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	return answer(t, request)
}

func answer(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// Kafka that is away at the start is waited for, unready, with the reason; a stop does not wait for it for ever.
func TestRunWithoutKafka(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=127.0.0.1:1", "WALRELAY_DRAIN_TIMEOUT=1s"}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	cmd, output, address := start(t, environ)
	await(t, "streaming", func() bool { return strings.Contains(output.String(), `"streaming"`) })
	pgtest.Exec(t, url, `INSERT INTO outbox VALUES (1, 'order', 'o-1', 'OrderCreated', 'x')`)
	await(t, "unready, and why", func() bool {
		code, body := get(t, address, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "kafka")
	})
	if code, body := get(t, address, "/healthz"); code != http.StatusOK {
		t.Errorf("a restart would not help, but /healthz asks for it: %d %s", code, body)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v\n%s", err, output)
	}
}

// The first signal waits for a Kafka that does not acknowledge, the second ends at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	cluster := kafkatest.Fake(t)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, nil, true // no answer
	})
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + cluster.ListenAddrs()[0], "WALRELAY_DRAIN_TIMEOUT=5m"}
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	for first, c := range map[syscall.Signal]struct {
		second syscall.Signal
		code   int
	}{
		syscall.SIGTERM: {syscall.SIGINT, 130},
		syscall.SIGINT:  {syscall.SIGTERM, 143},
	} {
		cmd, output, address := start(t, environ)
		await(t, "streaming", func() bool { return strings.Contains(output.String(), `"streaming"`) })
		pgtest.Exec(t, url, `INSERT INTO outbox VALUES (1, 'order', 'o-1', 'OrderCreated', 'x')`)
		await(t, "a record in flight", func() bool {
			_, body := get(t, address, "/status")
			return !strings.Contains(body, `"in_flight": 0`)
		})
		if err := cmd.Process.Signal(first); err != nil {
			t.Fatal(err)
		}
		await(t, "draining", func() bool { return strings.Contains(output.String(), "a second signal ends at once") })
		if err := cmd.Process.Signal(c.second); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != c.code {
			t.Errorf("%v, %v: %v, want exit code %d\n%s", first, c.second, err, c.code, output)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	signals, exits := make(chan os.Signal), make(chan int, 1)
	p := program{err: new(lines), signals: signals, exit: func(code int) { exits <- code }}
	ctx, stop := p.untilSignal(t.Context(), zap.NewNop())
	signals <- syscall.SIGTERM
	<-ctx.Done()
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "terminated") {
		t.Errorf("cause %v", cause)
	}
	signals <- syscall.SIGTERM
	if code := <-exits; code != 143 {
		t.Errorf("code %d", code)
	}
	stop()
}

// Run ends by itself only with something for a person, in one line.
func TestRunBadInput(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t, "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for _, c := range []struct {
		name   string
		sql    []string
		listen string
		code   int
		begin  string
		remedy string
	}{
		{"no table", nil, "off", exitPerson, "walrelay: outbox table public.outbox does not exist", "walrelay init creates it"},
		{"table without the columns", []string{`CREATE TABLE outbox (id int, body text)`}, "off", exitPerson, "walrelay: ", "aggregatetype"},
		{"existing rows", []string{`CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`,
			`INSERT INTO outbox VALUES (1, 'a', 'b', 'c', 'd')`}, "off", exitPerson, "walrelay: ", "init --existing=skip"},
		{"taken address", nil, taken.Addr().String(), exitConfiguration, "walrelay: http.listen", "choose another address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := server.Database(t)
			pgtest.Exec(t, url, c.sql...)
			environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=127.0.0.1:1", "WALRELAY_HTTP_LISTEN=" + c.listen, "WALRELAY_LOG_LEVEL=error"}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var out, err lines
			p := program{out: &out, err: &err, environ: environ, signals: make(chan os.Signal)}
			code := p.execute(ctx, []string{"run"})
			if code != c.code || !oneLineWith(err.String(), c.begin, c.remedy) {
				t.Errorf("code %d, %s%s", code, out.String(), err.String())
			}
		})
	}
}
