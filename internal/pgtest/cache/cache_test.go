package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnceFillsOnceForAllWhoAsk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var filled atomic.Int32
	var running sync.WaitGroup
	for range 8 { // file locks hold between goroutines as between processes: each opens the file anew
		running.Go(func() {
			err := Once(t.Context(), dir, func(tmp string) error {
				filled.Add(1)
				return os.WriteFile(filepath.Join(tmp, "f"), []byte("x"), 0o600)
			})
			if err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if filled.Load() != 1 {
		t.Errorf("filled %d times", filled.Load())
	}
}

func TestOnceLeavesNothingOfAFailure(t *testing.T) {
	parent := t.TempDir()
	dir, bad := filepath.Join(parent, "x"), errors.New("bad")
	err := Once(t.Context(), dir, func(tmp string) error {
		os.WriteFile(filepath.Join(tmp, "half"), nil, 0o600)
		return bad
	})
	if err != bad {
		t.Errorf("error %v, want %v", err, bad)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "x*")); len(left) != 1 || left[0] != dir+".lock" {
		t.Errorf("left %v, want the lock only", left)
	}
	if err := Once(t.Context(), dir, func(string) error { return nil }); err != nil {
		t.Errorf("the next try: %v", err)
	}
}

func TestOnceWaitsOnlyAsLongAsItsContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	err := Once(t.Context(), dir, func(string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		return Once(ctx, dir, func(string) error { t.Error("filled twice at once"); return nil })
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want deadline exceeded", err)
	}
}

func TestEntriesAreReadableByAll(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "p", "x")
	if err := Once(t.Context(), dir, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v; want mode 755", d, info.Mode(), err)
		}
	}
}

func TestReport(t *testing.T) {
	var lines []string
	Report(func(line string) { lines = append(lines, line) }, "working")()
	if len(lines) != 1 || lines[0] != "working" {
		t.Errorf("said %q", lines)
	}
	Report(nil, "working")()
}
