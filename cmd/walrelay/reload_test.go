package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
)

const httpToken = "token-for-the-test-4711"

// order sends a request that changes something.
func order(t *testing.T, method, address, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	request.Header.Set("Authorization", "Bearer "+httpToken)
	return answer(t, request)
}

func relayStatus(t *testing.T, address string) (s relay.Status) {
	t.Helper()
	if _, body := order(t, http.MethodGet, address, "/status", ""); json.Unmarshal([]byte(body), &s) != nil {
		t.Fatal(body)
	}
	return s
}

// SIGHUP takes the log level over, and says of everything else that a restart is needed; a wrong file changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	file := filepath.Join(t.TempDir(), "walrelay.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log: {level: info}\n")
	cmd, output, address := start(t, []string{"WALRELAY_CONFIG=" + file, "WALRELAY_POSTGRES_URL=" + url,
		"WALRELAY_KAFKA_BROKERS=" + kafkatest.Fake(t).ListenAddrs()[0], "WALRELAY_HTTP_TOKEN=" + httpToken})
	t.Cleanup(func() { _ = cmd.Wait() })
	await(t, "ready", func() bool { code, _ := get(t, address, "/readyz"); return code == http.StatusOK })
	for _, step := range []struct {
		file, line string
		restart    bool
	}{
		{"log: {level: debug}\n", `"configuration read again: all of it is in effect","level":"debug"`, false},
		{"log: {level: info}\ndrain_timeout: 1s\n", `"a restart is needed for some of it","keys":["drain_timeout"],"level":"info"`, true},
		{"log: {level: loud}\n", `"the configuration is wrong and was not taken over"`, true},
		{"log: {level: warn}\n", "", false}, // says nothing below the new level
	} {
		write(step.file)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await(t, step.line, func() bool {
			said := strings.ReplaceAll(output.String(), `"configuration read again: a restart`, `"a restart`)
			return strings.Contains(said, step.line) && relayStatus(t, address).RestartNeeded == step.restart
		})
	}
	if code, text := order(t, http.MethodPut, address, "/log/level", `{"level": "debug"}`); code != http.StatusOK || text != "level is debug\n" {
		t.Errorf("level over HTTP: %d %s", code, text)
	}
	await(t, "the line", func() bool { return strings.Contains(output.String(), `"log level changed over HTTP"`) })
	if code, text := order(t, http.MethodPut, address, "/log/level", `{"level": "fatal"}`); code != http.StatusUnprocessableEntity {
		t.Errorf("a level that there is not: %d %s", code, text)
	}
}

// While nothing changes nothing is logged, and neither a payload nor a secret ever is.
func TestLogsAreQuietAndDiscreet(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	url = strings.Replace(url, "postgres://postgres@", "postgres://postgres:the-password-word@", 1)
	cluster := kafkatest.Fake(t)
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + cluster.ListenAddrs()[0], "WALRELAY_HTTP_TOKEN=" + httpToken}
	cmd, output, address := start(t, environ)
	t.Cleanup(func() { _ = cmd.Wait() })
	await(t, "ready", func() bool { code, _ := get(t, address, "/readyz"); return code == http.StatusOK })

	event := func(from, to, topic string) {
		pgtest.Exec(t, url, `INSERT INTO outbox SELECT i, '`+topic+`', 'the-key-word', 'T', 'the-payload-word' FROM generate_series(`+from+`, `+to+`) i`)
	}
	published := func() (n uint64) {
		for _, topic := range relayStatus(t, address).Topics {
			n += topic.Records
		}
		return n
	}
	event("1", "100", "order")
	await(t, "the first", func() bool { return published() == 100 })
	quiet := output.String()
	for range 20 {
		event("1", "100", "order")
	}
	await(t, "all", func() bool { return published() == 2100 })
	if later := output.String(); later != quiet {
		t.Errorf("in the steady state it says %s", strings.TrimPrefix(later, quiet))
	}

	// Trouble of every kind, at the level that says most.
	order(t, http.MethodPut, address, "/log/level", `{"level": "debug"}`)
	event("1", "1", "illegal topic")
	await(t, "halted", func() bool { return relayStatus(t, address).State == relay.Halted })
	_, rest, _ := strings.Cut(relayStatus(t, address).Reason, "event ")
	id, _, _ := strings.Cut(rest, ": ")
	if code, text := order(t, http.MethodPost, address, "/skip", `{"event": "`+id+`", "reason": "a test"}`); code != http.StatusOK || text != "skipped\n" {
		t.Errorf("skip over HTTP: %d %s", code, text)
	}
	if code, text := order(t, http.MethodPost, address, "/pause", `{"reason": "a test"}`); code != http.StatusOK || text != "paused\n" {
		t.Errorf("pause over HTTP: %d %s", code, text)
	}
	await(t, "paused", func() bool { return relayStatus(t, address).State == relay.Paused })
	if code, text := order(t, http.MethodPost, address, "/resume", `{}`); code != http.StatusOK || text != "resumed\n" {
		t.Errorf("resume over HTTP: %d %s", code, text)
	}
	pgtest.Exec(t, url, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()`)
	await(t, "the connection is lost and had again", func() bool { return strings.Contains(output.String(), "trying again") })
	event("1", "10", "order")
	await(t, "the rest", func() bool { return published() == 2110 })
	cluster.Close()
	event("1", "10", "order")
	await(t, "Kafka is away", func() bool { return strings.Contains(output.String(), "no kafka broker answers") })
	_, page := order(t, http.MethodGet, address, "/status", "")
	_, metrics := order(t, http.MethodGet, address, "/metrics", "")
	if got := walrelay(t, environ, "status", "--url", "http://"+address); !strings.Contains(got.out, "relay       streaming") {
		t.Errorf("the status command does not know the token: %s%s", got.out, got.err)
	}
	for _, word := range []string{"the-password-word", "the-payload-word", httpToken} {
		if strings.Contains(output.String(), word) || strings.Contains(page, word) || strings.Contains(metrics, word) {
			t.Errorf("%s is told", word)
		}
	}
}

// systemd is told of the start, of the state, of life and of the end.
func TestSystemd(t *testing.T) {
	t.Parallel()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	next := func() string {
		buffer := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	cmd, output := child(t.Context(), []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=127.0.0.1:1", "WALRELAY_HTTP_LISTEN=off",
		"NOTIFY_SOCKET=" + socket.LocalAddr().String(), "WATCHDOG_USEC=300000"}, "run")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if first := next(); first != "READY=1" {
		t.Errorf("first %s", first)
	}
	seen := map[string]int{}
	for seen["WATCHDOG=1"] < 3 || seen["STATUS=streaming"] == 0 {
		message, _, _ := strings.Cut(next(), ",")
		seen[message]++
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for next() != "STOPPING=1" {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v\n%s", err, output)
	}
}
