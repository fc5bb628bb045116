package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// asMain makes this test binary behave as the program, for tests that need a process.
const asMain = "TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	pgtest.Main(m, kafkatest.CloseShared)
}

// result is what a person gets from a command line.
type result struct {
	code     int
	out, err string
}

// walrelay runs a command line in an environment without our variables but those given.
func walrelay(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	var out, err lines
	p := program{out: &out, err: &err, environ: environ, signals: make(chan os.Signal), exit: func(int) { t.Error("exit") }}
	code := p.execute(t.Context(), args)
	return result{code, out.String(), err.String()}
}

// lines is a buffer for several writers.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// child is the program as a process of its own.
func child(ctx context.Context, environ []string, args ...string) (*exec.Cmd, *lines) {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(environ, asMain+"=1", "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+os.Getenv("GOCOVERDIR"))
	output := new(lines)
	cmd.Stdout, cmd.Stderr = output, output
	return cmd, output
}

// oneLineWith tells whether the text is a single line that begins and goes on as wanted.
func oneLineWith(text, begin string, parts ...string) bool {
	if !strings.HasPrefix(text, begin) || strings.Count(text, "\n") != 1 {
		return false
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// asRole is the URL for a new role with these attributes.
func asRole(t *testing.T, url, attributes string) string {
	t.Helper()
	name := "role_" + strings.ToLower(rand.Text()[:12])
	pgtest.Exec(t, url, "CREATE ROLE "+name+" LOGIN "+attributes)
	t.Cleanup(func() { pgtest.Exec(t, url, "DROP OWNED BY "+name, "DROP ROLE "+name) })
	return strings.Replace(url, "postgres://postgres@", "postgres://"+name+"@", 1)
}

// command is a process that does not outlive the test.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), name, args...)
}
