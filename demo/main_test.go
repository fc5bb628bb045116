package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// mainVariable makes the test binary the demo.
const mainVariable = "WALRELAY_DEMO_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(relayVariable) != "" || os.Getenv(mainVariable) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

// program is a demo that runs.
type program struct {
	*exec.Cmd
	stdout io.ReadCloser
	stderr *bytes.Buffer
}

// start starts the demo; it is killed when the test takes too long.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, executable, args...), stderr: &bytes.Buffer{}}
	p.Env = append(os.Environ(), mainVariable+"=1")
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cmd.Stderr = p.stderr
	if p.stdout, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// end reads the rest of standard output and returns it with the exit code.
func (p *program) end(t *testing.T) (stdout string, code int) {
	t.Helper()
	text, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // the exit code tells
	if p.ProcessState.ExitCode() < 0 {
		t.Fatalf("demo: %v\n%s%s", p.ProcessState, text, p.stderr)
	}
	return string(text), p.ProcessState.ExitCode()
}

// result is the last line of standard output, which must be JSON with exactly the promised members.
func result(t *testing.T, stdout string) summary {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	last := lines[len(lines)-1]
	if !regexp.MustCompile(`^\{"inserted":\d+,"delivered":\d+,"lost":\d+,"duplicated":\d+,"reordered":\d+,"p50_ms":[\d.]+,"p99_ms":[\d.]+\}$`).MatchString(last) {
		t.Fatalf("the last line is %q of\n%s", last, stdout)
	}
	var s summary
	if err := json.Unmarshal([]byte(last), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// counts leaves the latencies out.
func counts(s summary) summary {
	s.P50, s.P99 = 0, 0
	return s
}

// deliveries are the printed lines of records.
var deliveries = regexp.MustCompile(`(?m)^ *(?:[\d.]+ ms|again)  [a-z.]+\.(?:order|customer) +\d+ +(?:Order|Customer)[A-Z]\w+ +\{".*\}$`)

func TestBounded(t *testing.T) {
	t.Parallel()
	stdout, code := start(t, "-events", "60", "-rate", "12", "-json").end(t)
	s := result(t, stdout)
	if diff := cmp.Diff(summary{Inserted: 60, Delivered: 60}, counts(s)); diff != "" || code != 0 {
		t.Errorf("exit code %d, %s\n%s", code, diff, stdout)
	}
	if s.P50 <= 0 || s.P99 < s.P50 || s.P99 > 10_000 {
		t.Errorf("latencies in %+v", s)
	}
	if n := len(deliveries.FindAllString(stdout, -1)); n != 60 {
		t.Errorf("%d records printed, want 60\n%s", n, stdout)
	}
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("colours in a file:\n%s", stdout)
	}
}

// TestKill: what a relay that was killed had published is not published again by the next one.
func TestKill(t *testing.T) {
	t.Parallel()
	stdout, code := start(t, "-events", "60", "-rate", "12", "-json", "-kill").end(t)
	s := result(t, stdout)
	if diff := cmp.Diff(summary{Inserted: 60, Delivered: 60}, counts(s)); diff != "" || code != 0 {
		t.Errorf("exit code %d, %s\n%s", code, diff, stdout)
	}
	if n := len(deliveries.FindAllString(stdout, -1)); n != 60 {
		t.Errorf("%d records printed, want 60\n%s", n, stdout)
	}
	pids := map[string]bool{}
	for _, kill := range regexp.MustCompile(`relay (\d+) killed \(SIGKILL\), relay \d+ started`).FindAllStringSubmatch(stdout, -1) {
		pids[kill[1]] = true
	}
	if len(pids) != 3 {
		t.Errorf("%d different relays killed, want 3\n%s", len(pids), stdout)
	}
}

// TestGivenServers: a second run meets what the first has left, and neither leaves a slot.
func TestGivenServers(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	for run := range 2 {
		stdout, code := start(t, "-events", "20", "-rate", "50", "-json", "-postgres", url, "-kafka", strings.Join(brokers, ",")).end(t)
		if diff := cmp.Diff(summary{Inserted: 20, Delivered: 20}, counts(result(t, stdout))); diff != "" || code != 0 {
			t.Errorf("run %d: exit code %d, %s\n%s", run, code, diff, stdout)
		}
		if !strings.Contains(stdout, "DROP SCHEMA walrelay_demo CASCADE;") {
			t.Errorf("run %d does not say what it leaves:\n%s", run, stdout)
		}
	}
	topics, err := kafkatest.Topics(t.Context(), brokers)
	if diff := cmp.Diff([]string{"demo.outbox.event.customer", "demo.outbox.event.order"}, topics); diff != "" || err != nil {
		t.Error(diff, err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var rows, left int
	err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM walrelay_demo.outbox),
		(SELECT count(*) FROM pg_replication_slots WHERE database = current_database())
		+ (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM walrelay.checkpoint)`).Scan(&rows, &left)
	if rows != 40 || left != 0 || err != nil {
		t.Errorf("%d rows, want 40; %d slots, publications and checkpoints are left; %v", rows, left, err)
	}
}

// untilDelivered reads standard output until n records were printed, and returns what it has read.
func (p *program) untilDelivered(t *testing.T, n int) string {
	t.Helper()
	var read strings.Builder
	lines := bufio.NewReader(p.stdout)
	for n > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after\n%s%s", err, read.String(), p.stderr)
		}
		read.WriteString(line)
		if deliveries.MatchString(strings.TrimSuffix(line, "\n")) {
			n--
		}
	}
	rest, _ := lines.Peek(lines.Buffered())
	p.stdout = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(rest), p.stdout), p.stdout}
	return read.String()
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	p := start(t, "-rate", "50")
	before := p.untilDelivered(t, 20)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stdout, code := p.end(t)
	printed := len(deliveries.FindAllString(before+stdout, -1))
	want := fmt.Sprintf("\ninserted %[1]d, delivered %[1]d, lost 0, duplicated 0, reordered 0; commit to consumer p50 ", printed)
	if code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, want 0 and %q in\n%s%s", code, want, stdout, p.stderr)
	}
}

func TestRelayEndsByItself(t *testing.T) {
	t.Parallel()
	p := start(t, "-rate", "50")
	before := p.untilDelivered(t, 1)
	pid, err := strconv.Atoi(regexp.MustCompile(`walrelay, process (\d+)`).FindStringSubmatch(before)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if stdout, code := p.end(t); code != 1 || !strings.Contains(p.stderr.String(), "demo: the relay has ended (signal: killed)") {
		t.Errorf("exit code %d\n%s%s", code, stdout, p.stderr)
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-events", "-1"}, 2, "-events -1: must not be negative\nUsage of demo:"},
		{[]string{"-rate", "0"}, 2, "-rate 0: must be above 0 and at most 1000\n"},
		{[]string{"10"}, 2, `unknown argument "10"`},
		{[]string{"-help"}, 0, "Usage of demo:"},
		{[]string{"-postgres", "postgres://nobody@127.0.0.1:1/none", "-kafka", "127.0.0.1:1"}, 1, "demo: connect to Postgres: "},
	} {
		p := start(t, c.args...)
		if stdout, code := p.end(t); code != c.code || !strings.Contains(p.stderr.String(), c.want) || stdout != "" {
			t.Errorf("%q: exit code %d, want %d and %q in\n%s%s", c.args, code, c.code, c.want, stdout, p.stderr)
		}
	}
}
