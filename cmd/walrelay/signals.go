package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"go.uber.org/zap"
)

// untilSignal gives a context that ends with the first signal. The second one ends the process at once, with the code
// that a shell gives a process killed by it. stop ends the waiting. A nil log says nothing.
func (p *program) untilSignal(ctx context.Context, log *zap.Logger) (running context.Context, stop func()) {
	return p.onSignals(ctx, log, nil)
}

// onSignals is untilSignal with SIGHUP meaning that the configuration is to be read again. Without reload it ends as the
// others do.
func (p *program) onSignals(ctx context.Context, log *zap.Logger, reload func()) (running context.Context, stop func()) {
	if log == nil {
		log = zap.NewNop()
	}
	running, cancel := context.WithCancelCause(ctx)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for first := true; ; {
			select {
			case <-done:
				return
			case s := <-p.signals:
				if s == syscall.SIGHUP && reload != nil {
					reload()
					continue
				}
				if !first {
					fmt.Fprintf(p.err, "walrelay: second signal (%v), not waiting any longer\n", s)
					p.exit(codeOf(s))
					return
				}
				log.Info("stopping; a second signal ends at once", zap.Stringer("signal", s))
				first = false
				cancel(fmt.Errorf("signal: %v", s))
			}
		}
	}()
	return running, func() {
		close(done)
		<-ended
		cancel(nil)
	}
}

func codeOf(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitUnexpected
}
