package kafka

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// stallProbe is how long an answer may take before it looks as if the broker were gone.
	stallProbe = 2 * time.Second
	// stallInterval is how often the matter is looked at from then on.
	stallInterval = 250 * time.Millisecond
)

var errLeaderMoved = errors.New("no answer, and another broker leads now")

// watchedSocket is a socket whose reads and writes may take until the deadline. A stopped broker neither answers nor
// closes, and a large request fills its buffers, so reads and writes that do not get on ask overdue whether to go on
// waiting. It sits below TLS, where a write that ran into its deadline can be taken up again.
type watchedSocket struct {
	net.Conn
	deadline time.Time
	overdue  func() bool // true: give up; nil: wait until the deadline
}

func (s *watchedSocket) Read(b []byte) (int, error) {
	wait := stallProbe
	for {
		if err := s.Conn.SetReadDeadline(s.until(wait)); err != nil {
			return 0, err
		}
		n, err := s.Conn.Read(b)
		if n > 0 || err == nil || !s.goesOn(err) {
			return n, err
		}
		if s.overdue() {
			return 0, s.giveUp()
		}
		wait = stallInterval
	}
}

func (s *watchedSocket) Write(b []byte) (int, error) {
	wait := stallProbe
	for written := 0; ; {
		if err := s.Conn.SetWriteDeadline(s.until(wait)); err != nil {
			return written, err
		}
		n, err := s.Conn.Write(b[written:])
		written += n
		if err == nil || !s.goesOn(err) {
			return written, err
		}
		if s.overdue() {
			return written, s.giveUp()
		}
		wait = stallInterval
	}
}

// giveUp closes the socket, since the codecs read once more after an error.
func (s *watchedSocket) giveUp() error {
	_ = s.Conn.Close()
	return errLeaderMoved
}

// until is the next deadline of the socket itself.
func (s *watchedSocket) until(wait time.Duration) time.Time {
	if s.overdue == nil {
		return s.deadline
	}
	if next := time.Now().Add(wait); next.Before(s.deadline) {
		return next
	}
	return s.deadline
}

// goesOn tells whether err only ends a period between two looks.
func (s *watchedSocket) goesOn(err error) bool {
	return s.overdue != nil && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(s.deadline)
}
