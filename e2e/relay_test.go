package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/relaytest"
	"github.com/walrelay/walrelay/relay"
)

// walrelay is a process of the binary that belongs to a test.
type walrelay struct{ *relaytest.Process }

// launch starts the binary with exactly these variables of walrelay. It is killed at the end of the test.
func launch(t *testing.T, environ []string, args ...string) *walrelay {
	t.Helper()
	started, err := relaytest.Launch(binary, filepath.Join(t.TempDir(), "output"), environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	w := &walrelay{started}
	t.Cleanup(func() {
		if err := w.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("walrelay %d (%v) said, at the end:\n%s", w.Pid(), w.Err(), last(w.Said(), 4096))
		}
	})
	return w
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// awaitLine waits until the relay has said text.
func (w *walrelay) awaitLine(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.AwaitLine(ctx, text); err != nil {
		t.Fatalf("waited until the relay says %s: %v", text, err)
	}
}

// exit waits for the end and returns the exit code, -1 for a signal.
func (w *walrelay) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-w.Done():
	case <-limit.C:
		t.Fatalf("the relay has not ended within %v:\n%s", within, last(w.Said(), 4096))
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
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, last(w.Said(), 4096))
	}
}

// findPages waits until the relay serves its pages.
func (w *walrelay) findPages(t *testing.T) {
	t.Helper()
	w.awaitLine(t, `"serving health, metrics and status"`)
}

// page gets one of the pages.
func (w *walrelay) page(path string) (code int, body string, err error) {
	return w.Page(context.Background(), path) // also while a test ends
}

// status is what /status says.
func (w *walrelay) status() (s relay.Status, err error) { return w.Status(context.Background()) }

// awaitReady waits until /readyz says ready.
func (w *walrelay) awaitReady(t *testing.T) {
	t.Helper()
	await(t, "ready", func() error {
		if err := w.Ended(); err != nil {
			t.Fatal(err)
		}
		code, body, err := w.page("/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
}
