package faultconn

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is the client's end of a connection, with faults.
type conn struct {
	net.Conn
	faults    *Faults
	deadlines [2]*deadline
	broken    chan struct{} // closed by cut
	closed    chan struct{} // closed by Close
	breakOnce sync.Once
	closeOnce sync.Once

	reading sync.Mutex // one Read at a time
	buffer  []byte
	arrived []byte    // the part of buffer that is not delivered
	due     time.Time // when it may be delivered
	silent  bool

	writing sync.Mutex // one Write at a time
}

func newConn(inner net.Conn, f *Faults) *conn {
	c := &conn{
		Conn: inner, faults: f, deadlines: [2]*deadline{newDeadline(), newDeadline()},
		broken: make(chan struct{}), closed: make(chan struct{}), buffer: make([]byte, 64<<10),
	}
	f.add(c)
	return c
}

// Read delivers what has arrived, when the faults let it pass. Data that arrived but may not pass before the deadline is
// kept for the next Read.
func (c *conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(c.arrived) == 0 {
		if err := c.receive(); err != nil {
			return 0, err
		}
	}
	if err := c.wait(read, time.Until(c.due)); err != nil {
		return 0, err
	}
	n, effect := c.faults.carry(read, min(len(b), len(c.arrived)))
	copy(b, c.arrived[:n])
	c.arrived = c.arrived[n:]
	switch effect {
	case cut:
		c.cut()
	case silence:
		c.silent, c.arrived = true, nil
	}
	return n, nil
}

// receive fills the buffer. On a silent connection it throws away what arrives.
func (c *conn) receive() error {
	for {
		if err := c.wait(read, 0); err != nil {
			return err
		}
		n, err := c.Conn.Read(c.buffer)
		if n > 0 && !c.silent {
			c.arrived, c.due = c.buffer[:n], time.Now().Add(c.faults.delayOf(read))
			return nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			if err := c.wait(read, 0); err != nil { // the news of the end may not pass either
				return err
			}
		}
		return err
	}
}

// Write sends b when the faults let it pass.
func (c *conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.wait(write, c.faults.delayOf(write)); err != nil {
		return 0, err
	}
	n, effect := c.faults.carry(write, len(b))
	n, err := c.Conn.Write(b[:n])
	if effect == cut {
		c.cut()
		if err == nil && n < len(b) {
			err = c.failure(write, syscall.ECONNRESET)
		}
	}
	if err != nil && c.isBroken() {
		err = c.failure(write, syscall.ECONNRESET)
	}
	return n, err
}

// wait returns when the delay is over and the connection is not stalled, or with the reason why it never will.
func (c *conn) wait(d direction, delay time.Duration) error {
	var passed <-chan time.Time
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		passed = timer.C
	}
	for {
		gate := c.faults.gate()
		if err := c.ended(d); err != nil {
			return err
		}
		if gate == nil && passed == nil {
			return nil
		}
		waitFor := passed
		if gate != nil {
			waitFor = nil // first the stall, then the delay
		}
		select {
		case <-gate: // a nil channel never is ready
		case <-waitFor:
			passed = nil
		case <-c.closed:
		case <-c.broken:
		case <-c.deadlines[d].wait():
		}
	}
}

// ended is why nothing can pass in a direction any more; nil when it can. What we did ourselves goes first.
func (c *conn) ended(d direction) error {
	for _, end := range []struct {
		when  <-chan struct{}
		cause error
	}{
		{c.closed, net.ErrClosed},
		{c.broken, syscall.ECONNRESET},
		{c.deadlines[d].wait(), os.ErrDeadlineExceeded},
	} {
		select {
		case <-end.when:
			return c.failure(d, end.cause)
		default:
		}
	}
	return nil
}

func (c *conn) failure(d direction, cause error) error {
	op := "read"
	if d == write {
		op = "write"
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: cause}
}

// cut breaks the connection as if the network or the server had ended it.
func (c *conn) cut() {
	c.breakOnce.Do(func() {
		close(c.broken)
		c.faults.remove(c)
		c.Conn.Close()
	})
}

func (c *conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// Close closes the connection; blocked calls return net.ErrClosed.
func (c *conn) Close() error {
	err := error(nil)
	c.closeOnce.Do(func() {
		close(c.closed)
		c.faults.remove(c)
		err = c.Conn.Close()
		if c.isBroken() {
			err = nil
		}
	})
	return err
}

// CloseWrite tells the server that nothing more will be written.
func (c *conn) CloseWrite() error {
	if err := c.wait(write, 0); err != nil {
		return err
	}
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return c.Close()
	}
	return half.CloseWrite()
}

// SyscallConn gives access to the socket, for its options: reads and writes through it know no faults.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return raw.SyscallConn()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.deadlines[read].set(t)
	c.deadlines[write].set(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadlines[read].set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadlines[write].set(t)
	return c.Conn.SetWriteDeadline(t)
}
