package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Process is one running or ended child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; written before done is closed
}

// Start starts cmd. Give it files, not writers, as Stdout and Stderr: a grandchild that holds a pipe open would delay
// the end of the wait.
func Start(cmd *exec.Cmd) (*Process, error) {
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process id; it stays the same after the end.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is the result of the wait (nil for exit code 0, an *exec.ExitError for another code or a signal). It may be
// called only after Done is closed.
func (p *Process) Err() error { return p.err }

// Running tells whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends sig. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.Pid(), err)
	}
	return nil
}

// Stop sends sig and waits for the end. When ctx ends first, the process is left as it is.
func (p *Process) Stop(ctx context.Context, sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop process %d with %v: %w", p.Pid(), sig, context.Cause(ctx))
	}
}

// Kill sends SIGKILL, which also ends a frozen process, and waits for the end.
func (p *Process) Kill() error {
	return p.Stop(context.Background(), syscall.SIGKILL)
}
