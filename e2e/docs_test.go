package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
)

// snippet is a fenced block of a page.
type snippet struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// reader does what a page says: it types the commands, in order, and sees whether each works. Servers are the test's own, in
// the place of those that the page names; the port of the pages is one that is free.
type reader struct {
	t       *testing.T
	dir     string            // where commands are typed, with ./walrelay
	environ map[string]string // what was exported, the values the test's own
	url     string
	relay   *walrelay
	ran     []string
}

// TestReadmeAndQuickstart: every command and statement of both pages works as it stands there.
func TestReadmeAndQuickstart(t *testing.T) {
	t.Parallel()
	for page, before := range map[string]string{
		"README.md":          `CREATE TABLE orders (id int PRIMARY KEY, state text); INSERT INTO orders VALUES (4711, 'new')`,
		"docs/quickstart.md": `SELECT 1`,
	} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../" + page)
			if err != nil {
				t.Fatal(err)
			}
			server, brokers := pgtest.Shared(t, ""), kafkatest.Shared(t, 1).Bootstrap()
			r := &reader{t: t, dir: t.TempDir(), url: server.Database(t)}
			pgtest.Exec(t, r.url, before)
			r.environ = map[string]string{"WALRELAY_POSTGRES_URL": r.url, "WALRELAY_KAFKA_BROKERS": brokers[0]}
			topic := "docs-" + strings.ToLower(strings.TrimSuffix(filepath.Base(page), ".md"))
			config := filepath.Join(r.dir, "topic.yaml")
			routed := "tables: [{name: public.outbox, route: {replacement: '" + topic + ".${routedByValue}'}}]\nkafka: {topics: {create: true}}\n"
			if err := os.WriteFile(config, []byte(routed), 0o600); err != nil {
				t.Fatal(err)
			}
			r.environ["WALRELAY_CONFIG"] = config // topics of this page's own; else the two would share one
			for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
				r.do(snippet{m[1], m[2]})
			}
			if len(r.ran) < 6 {
				t.Errorf("only these were run: %q", r.ran)
			}
			if r.environ["dropped"] == "" {
				r.published(brokers, topic+".order")
				r.relay.stop(t)
			}
		})
	}
}

// published looks for the record that the page promises.
func (r *reader) published(brokers []string, topic string) {
	r.t.Helper()
	await(r.t, "the record that the page promises", func() error {
		records, err := kafkatest.ReadAll(context.Background(), brokers, topic)
		if err == nil && (len(records) != 1 || string(records[0].Key) != "4711" || !strings.Contains(string(records[0].Value), "19.90") || records[0].Headers[0].Name != "id") {
			err = fmt.Errorf("%d records in %s: %+v", len(records), topic, records)
		}
		return err
	})
}

func (r *reader) do(s snippet) {
	r.t.Helper()
	switch s.language {
	case "sql":
		if r.relay != nil {
			r.relay.awaitLine(r.t, `"relay is streaming"`)
		}
		pgtest.Exec(r.t, r.url, s.text)
		r.ran = append(r.ran, s.text)
	case "sh":
		for line := range strings.Lines(s.text) {
			if line = strings.TrimSpace(regexp.MustCompile(`\s+#.*$`).ReplaceAllString(line, "")); line != "" {
				r.command(line)
				r.ran = append(r.ran, line)
			}
		}
	case "json", "text":
	default:
		r.t.Errorf("a block of %q is not run by this test", s.language)
	}
}

// command types one line.
func (r *reader) command(line string) {
	r.t.Helper()
	words := strings.Fields(line)
	switch {
	case words[0] == "export":
		name, value, _ := strings.Cut(words[1], "=")
		if r.environ[name] == "" || value == "" {
			r.t.Errorf("%s: the page exports what it should not", line)
		}
	case line == "go run ./demo":
		r.demo()
	case strings.HasPrefix(line, "go build -o walrelay "):
		r.run("..", append(words[:3:3], append([]string{filepath.Join(r.dir, "walrelay")}, words[4:]...)...))
	case line == "./walrelay run":
		r.relay = launch(r.t, append(r.variables(), "WALRELAY_HTTP_LISTEN=127.0.0.1:0"), "run")
		r.relay.findPages(r.t)
		await(r.t, "ready", func() error {
			code, body, err := r.relay.page("/readyz")
			if err == nil && code != 200 {
				err = fmt.Errorf("%d %s", code, body)
			}
			return err
		})
	case words[0] == "curl":
		path := strings.TrimPrefix(words[len(words)-1], "localhost:9187")
		await(r.t, line, func() error { // the first event waits until its topic was created
			code, body, err := r.relay.page(path)
			if err == nil && code != 200 {
				err = fmt.Errorf("%d %s", code, body)
			}
			return err
		})
	case strings.HasPrefix(line, "./walrelay slot drop"):
		r.published(strings.Split(r.environ["WALRELAY_KAFKA_BROKERS"], ","), "docs-quickstart.order")
		r.relay.stop(r.t)
		r.run(r.dir, words)
		r.environ["dropped"] = "yes"
	case words[0] == "docker":
		r.compose(line)
	case words[0] == "make":
		r.target(words[1])
	default:
		r.run(r.dir, []string{"bash", "-c", line})
	}
}

func (r *reader) variables() []string {
	var environ []string
	for name, value := range r.environ {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// run ends when the command does; it must have succeeded. A relay that runs is asked where it really is.
func (r *reader) run(dir string, words []string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(relaytest.WithoutOurs(os.Environ()), append(r.variables(), "WALRELAY_HTTP_LISTEN=127.0.0.1:1")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// demo runs the demo until it has shown some events, and ends it as Ctrl-C would, which reaches go and its child.
func (r *reader) demo() {
	r.t.Helper()
	var out, complaint bytes.Buffer
	cmd := exec.Command("go", "run", "./demo")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.Dir, cmd.SysProcAttr, cmd.Stderr, cmd.WaitDelay = "..", &syscall.SysProcAttr{Setpgid: true}, &complaint, time.Minute
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	limit := time.AfterFunc(3*time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer limit.Stop()
	chunk, interrupted := make([]byte, 4096), false
	for {
		n, err := pipe.Read(chunk)
		out.Write(chunk[:n])
		if !interrupted && strings.Count(out.String(), "outbox.event.") >= 8 {
			interrupted = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // it may have ended; its code tells
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait() // go's own code after an interrupt is 1; the summary tells
	if !interrupted || !strings.Contains(out.String(), "lost 0, duplicated 0, reordered 0") {
		r.t.Errorf("go run ./demo: %v\n%s%s", err, out.String(), complaint.String())
	}
}

// compose makes sure that the profiles are there; the file itself is held against Compose's own loader in package deploy.
func (r *reader) compose(line string) {
	r.t.Helper()
	file, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		r.t.Fatal(err)
	}
	m := regexp.MustCompile(`^docker compose((?: --profile \w+)*) up$`).FindStringSubmatch(line)
	if m == nil {
		r.t.Fatalf("%s is not looked at by this test", line)
	}
	for _, profile := range strings.Fields(strings.ReplaceAll(m[1], "--profile", "")) {
		if !strings.Contains(string(file), "profiles: ["+profile+"]") {
			r.t.Errorf("%s: no profile %s", line, profile)
		}
	}
}

// target makes sure that make has it, without doing what may take half an hour.
func (r *reader) target(name string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "make", "--dry-run", name)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("make %s: %v\n%s", name, err, out)
	}
}
