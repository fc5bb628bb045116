package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/walrelay/walrelay/relay"
)

// supervisor tells systemd how the relay is (sd_notify(3)), where it asks for that. The relay counts as started at once: a
// Postgres that is away is waited for, and must not make the start of the unit fail.
type supervisor struct {
	socket string        // empty: nobody asks
	every  time.Duration // between two signs of life
	status func() relay.Status
}

// quietInterval is how often the text of the status is looked at where systemd wants no sign of life.
const quietInterval = 10 * time.Second

func newSupervisor(environ []string, status func() relay.Status) *supervisor {
	s := &supervisor{socket: variable(environ, "NOTIFY_SOCKET"), every: quietInterval, status: status}
	if micros, err := strconv.ParseInt(variable(environ, "WATCHDOG_USEC"), 10, 64); err == nil && micros > 0 {
		s.every = min(s.every, time.Duration(micros)*time.Microsecond/3)
	}
	return s
}

// run tells until ctx ends; from the end of stop on it says that the relay is draining. A relay whose loop does not turn
// gives no sign of life, so that systemd restarts it.
func (s *supervisor) run(ctx, stop context.Context) error {
	if s.socket == "" {
		return nil
	}
	s.tell("READY=1")
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	stopping, last := stop.Done(), ""
	for {
		status := s.status()
		line := fmt.Sprintf("STATUS=%s, %d events in flight. %s", status.State, status.InFlight, status.Unready)
		if line != last {
			s.tell(line)
			last = line
		}
		if status.Live {
			s.tell("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stopping:
			s.tell("STOPPING=1")
			stopping = nil
		case <-ticker.C:
		}
	}
}

// tell sends one message. Nobody is there to be told of a failure.
func (s *supervisor) tell(message string) {
	name := s.socket
	if strings.HasPrefix(name, "@") { // an abstract one
		name = "\x00" + name[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(message))
}

func variable(environ []string, name string) (value string) {
	for _, entry := range environ {
		if text, ok := strings.CutPrefix(entry, name+"="); ok {
			value = text
		}
	}
	return value
}
