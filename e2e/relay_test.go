package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/relay"
)

// walrelay is a process of the binary.
type walrelay struct {
	*process.Process
	output string // path of standard output and standard error
	pages  string // address of the HTTP pages, once known
}

// variables are the two that walrelay needs.
func variables(url string, brokers []string) []string {
	return []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}
}

// anyPort keeps tests that run at once off each other's HTTP address.
const anyPort = "WALRELAY_HTTP_LISTEN=127.0.0.1:0"

// launch starts the binary with exactly these variables of walrelay. It is killed at the end of the test.
func launch(t *testing.T, environ []string, args ...string) *walrelay {
	t.Helper()
	w := &walrelay{output: filepath.Join(t.TempDir(), "output")}
	output, err := os.Create(w.output)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close() // the child has its own
	cmd := exec.Command(binary, args...)
	cmd.Env = append(withoutOurs(os.Environ()), environ...)
	cmd.Stdout, cmd.Stderr = output, output
	if w.Process, err = process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("walrelay %d (%v) said, at the end:\n%s", w.Pid(), w.Err(), last(w.said(t), 4096))
		}
	})
	return w
}

// withoutOurs drops the variables that would configure walrelay.
func withoutOurs(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "WALRELAY_") && !strings.HasPrefix(entry, "PG") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func (w *walrelay) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(w.output)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// awaitLine waits until the relay has said text.
func (w *walrelay) awaitLine(t *testing.T, text string) {
	t.Helper()
	await(t, "the relay says "+text, func() error {
		said := w.said(t)
		switch {
		case strings.Contains(said, text):
			return nil
		case !w.Running():
			t.Fatalf("the relay has ended (%v) and did not say %q:\n%s", w.Err(), text, said)
		}
		return errors.New("not yet")
	})
}

// exit waits for the end and returns the exit code, -1 for a signal.
func (w *walrelay) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-w.Done():
	case <-limit.C:
		t.Fatalf("the relay has not ended within %v:\n%s", within, last(w.said(t), 4096))
	}
	var exit *exec.ExitError
	if err := w.Err(); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return 0
}

// stop ends the relay with SIGTERM; it must drain and exit with 0.
func (w *walrelay) stop(t *testing.T) {
	t.Helper()
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.exit(t, patience); code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, last(w.said(t), 4096))
	}
}

// findPages takes the address of the pages from the log.
func (w *walrelay) findPages(t *testing.T) {
	t.Helper()
	w.awaitLine(t, `"serving health, metrics and status"`)
	_, rest, _ := strings.Cut(w.said(t), `"address":"`)
	w.pages, _, _ = strings.Cut(rest, `"`)
}

// page gets one of the pages.
func (w *walrelay) page(path string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.pages+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true // no connection stays
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// status is what /status says.
func (w *walrelay) status() (s relay.Status, err error) {
	_, body, err := w.page("/status")
	if err == nil {
		err = json.Unmarshal([]byte(body), &s)
	}
	return s, err
}

// awaitReady waits until /readyz says ready.
func (w *walrelay) awaitReady(t *testing.T) {
	t.Helper()
	await(t, "ready", func() error {
		if !w.Running() {
			t.Fatalf("the relay has ended (%v):\n%s", w.Err(), last(w.said(t), 4096))
		}
		code, body, err := w.page("/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
}
