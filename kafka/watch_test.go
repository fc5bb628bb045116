package kafka

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// watched is a socket whose other end the test has, and the times of the looks at it.
func watched(giveUpAfter int) (s *watchedSocket, other net.Conn, looks *[]time.Duration) {
	near, far := net.Pipe()
	began := time.Now()
	looks = new([]time.Duration)
	s = &watchedSocket{Conn: near, deadline: began.Add(time.Minute), overdue: func() bool {
		*looks = append(*looks, time.Since(began))
		return len(*looks) > giveUpAfter
	}}
	return s, far, looks
}

func TestStalledSocketIsGivenUp(t *testing.T) {
	use := map[string]func(*watchedSocket) (int, error){
		"read":  func(s *watchedSocket) (int, error) { return s.Read(make([]byte, 8)) },
		"write": func(s *watchedSocket) (int, error) { return s.Write(make([]byte, 8)) },
	}
	for name, op := range use {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _, looks := watched(2)
				if _, err := op(s); !errors.Is(err, errLeaderMoved) {
					t.Errorf("error %v", err)
				}
				want := []time.Duration{stallProbe, stallProbe + stallInterval, stallProbe + 2*stallInterval}
				for i := range want {
					if (*looks)[i] != want[i] {
						t.Errorf("looked at %v, want %v", *looks, want)
					}
				}
				if _, err := op(s); err == nil || errors.Is(err, errLeaderMoved) {
					t.Errorf("the socket is open after it was given up: %v", err)
				}
			})
		})
	}
}

func TestStalledSocketMeetsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := watched(1 << 30)
		began := time.Now()
		if _, err := s.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.overdue = nil
		s.deadline = time.Now().Add(10 * time.Second)
		began = time.Now()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A write that is looked at several times goes on where it was.
func TestSlowWriteLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other, looks := watched(1 << 30)
		sent := []byte("0123456789")
		got := make([]byte, 0, len(sent))
		go func() {
			for len(got) < len(sent) {
				time.Sleep(3 * time.Second)
				b := make([]byte, 1)
				_, _ = io.ReadFull(other, b)
				got = append(got, b...)
			}
		}()
		if n, err := s.Write(sent); n != len(sent) || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
		synctest.Wait()
		if !bytes.Equal(got, sent) || len(*looks) < 10 {
			t.Errorf("got %q after %d looks", got, len(*looks))
		}
	})
}
