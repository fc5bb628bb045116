package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
)

// binary is the path of walrelay, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "walrelay-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "walrelay")
		err = relaytest.Build(context.Background(), binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kafkatest.Main(m, pgtest.CloseShared, func() { os.RemoveAll(dir) })
}

// patience is how long a test waits for what should come in a moment.
const patience = 30 * time.Second

// await polls until holds returns nil.
func await(t *testing.T, what string, holds func() error) {
	t.Helper()
	awaitWithin(t, patience, 10*time.Millisecond, what, holds)
}

// awaitWithin is await for what takes longer, or is better not asked all the time.
func awaitWithin(t *testing.T, limit, interval time.Duration, what string, holds func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(interval)
	defer poll.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("waited in vain: %s: %v", what, err)
		case <-poll.C:
		}
	}
}
