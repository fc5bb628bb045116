package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("WALRELAY_TEST_PARENT") != "" {
		parent()
		return
	}
	goleak.VerifyTestMain(m)
}

// parent starts a child, prints its process id and waits for its own death.
func parent() {
	p, err := Start(exec.Command("sleep", "1000"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.Pid())
	<-p.Done()
}

func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p
}

func TestChildDiesWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has parent-death signals")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WALRELAY_TEST_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(line, &child); err != nil {
		t.Fatal(err)
	}
	if !alive(child) {
		t.Fatal("no child")
	}
	cmd.Process.Kill()
	cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := AwaitGone(ctx, []int{child}); err != nil {
		syscall.Kill(child, syscall.SIGKILL)
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	polite := start(t, "exec sleep 1000")
	if !polite.Running() {
		t.Fatal("does not run")
	}
	if err := polite.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if polite.Running() || !errors.As(polite.Err(), &exit) {
		t.Errorf("running %v, result %v; want the end by a signal", polite.Running(), polite.Err())
	}
	if err := polite.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal to an ended process: %v", err)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	frozen := start(t, "exec sleep 1000")
	if err := Freeze(frozen.Pid()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := frozen.Stop(ctx, syscall.SIGTERM); !errors.Is(err, context.DeadlineExceeded) { // it cannot act on it
		t.Errorf("stop of a frozen process: %v, want deadline exceeded", err)
	}
	if !frozen.Running() {
		t.Error("it ended")
	}
	if err := Thaw(frozen.Pid()); err != nil {
		t.Fatal(err)
	}
	<-frozen.Done() // now it acts on it
}

func TestKillEndsAFrozenProcess(t *testing.T) {
	t.Parallel()
	frozen := start(t, "exec sleep 1000")
	if err := Freeze(frozen.Pid()); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Kill(); err != nil || frozen.Running() {
		t.Errorf("kill: %v, running %v", err, frozen.Running())
	}
}

func TestChildren(t *testing.T) {
	t.Parallel()
	p := start(t, "sleep 1000 & sleep 1000 & wait")
	var children []int
	deadline := time.Now().Add(10 * time.Second)
	for len(children) < 2 && time.Now().Before(deadline) {
		var err error
		if children, err = Children(p.Pid()); err != nil {
			t.Fatal(err)
		}
	}
	byPs, err := childrenByPs(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(children)
	slices.Sort(byPs)
	if len(children) != 2 || !slices.Equal(children, byPs) {
		t.Errorf("children %v, by ps %v; want the same two", children, byPs)
	}
	for _, pid := range children {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := AwaitGone(t.Context(), children); err != nil {
		t.Error(err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if n := len(slices.Compact(ports)); n != 50 {
		t.Errorf("%d different ports, want 50", n)
	}
}
