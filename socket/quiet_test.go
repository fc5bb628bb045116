//go:build linux && !race

package socket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a quiet connection and its other end, as the standard library has it.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ours = Quiet(dialed)
	t.Cleanup(func() { ours.Close(); accepted.Close() })
	return ours, accepted
}

// Everything comes through, both ways at once, far more than the buffers of the kernel hold.
func TestQuietCarriesEverything(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t)
	sent := make([]byte, 8<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(sent)
	done := make(chan error, 2)
	go func() { // an echo
		_, err := io.Copy(theirs, theirs)
		done <- errors.Join(err, theirs.(*net.TCPConn).CloseWrite())
	}()
	go func() {
		_, err := ours.Write(sent)
		done <- errors.Join(err, ours.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(ours)
	if err = errors.Join(err, <-done, <-done); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(sent))
	}
	if n, err := ours.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read behind the end: %d, %v", n, err)
	}
}

func TestQuietKeepsDeadlines(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t)
	b := make([]byte, 4)
	for range 2 {
		_ = ours.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := ours.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %d, %v", n, err)
		}
	}
	_ = ours.SetReadDeadline(time.Time{})
	if _, err := theirs.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	if n, err := ours.Read(b); err != nil || string(b[:n]) != "late" {
		t.Errorf("read after a deadline: %q, %v", b[:n], err)
	}
	_ = ours.SetWriteDeadline(time.Now().Add(time.Second)) // the buffers are full long before
	large := make([]byte, 64<<20)                          // nobody reads
	n, err := ours.Write(large)
	if n == 0 || n == len(large) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %d, %v", n, err)
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("write: %v is no timeout", err)
	}
}

// A close, and a deadline that another goroutine sets, end a read that waits.
func TestQuietReadIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(net.Conn) error{
		"close":    net.Conn.Close,
		"deadline": func(c net.Conn) error { return c.SetReadDeadline(time.Unix(1, 0)) },
	} {
		ours, _ := pair(t)
		ended := make(chan error, 1)
		go func() {
			_, err := ours.Read(make([]byte, 1))
			ended <- err
		}()
		if err := interrupt(ours); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuietReportsAReset(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t)
	_ = theirs.(*net.TCPConn).SetLinger(0)
	theirs.Close()
	_, err := ours.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v", err)
	}
	for err = nil; err == nil; {
		_, err = ours.Write(make([]byte, 1))
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write: %v", err)
	}
}

func TestQuietDoesNotAllocate(t *testing.T) {
	ours, theirs := pair(t)
	b := make([]byte, 16)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := ours.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(theirs, b); err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(b); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a write and a read", allocs)
	}
}

func TestQuietLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Quiet(a) != a {
		t.Error("a pipe was wrapped")
	}
}
