package replication

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// bufferBytes must hold a whole burst (lastMark) behind the rest of a message.
	bufferBytes = 512 << 10
	// prefixBytes of a message that is too long are kept, so that its table and id can be told.
	prefixBytes = 64 << 10
	headerBytes = 5 // type byte and length of a protocol message
)

// wire cuts the byte stream of a connection into protocol messages, in one buffer and without a copy. It is
// used by one goroutine, except for wake.
type wire struct {
	conn net.Conn
	tcp  syscall.Conn // for the low-water mark; nil where there is none
	max  int          // a longer message is read over, only its first bytes are kept

	buf  []byte
	r, w int // buf[r:w] is read and not yet handed out
	skip int // bytes of a message too long that are still to come

	pace     pace
	timedOut bool // the last read ended by the burst's deadline
	woken    atomic.Bool
}

func newWire(conn net.Conn, maxMessage int) *wire {
	return &wire{conn: conn, tcp: lowWater(conn), max: maxMessage, buf: make([]byte, bufferBytes)}
}

// message is one protocol message; body is a slice of the buffer and valid until the next fill.
type message struct {
	kind byte
	body []byte
	size int // of the body; more than len(body) when only the first bytes were kept
}

// next hands out the next whole message of the buffer.
func (c *wire) next() (message, bool, error) {
	c.drop()
	if c.w-c.r < headerBytes {
		return message{}, false, nil
	}
	kind, size := c.buf[c.r], int(binary.BigEndian.Uint32(c.buf[c.r+1:]))-4
	if size < 0 {
		return message{}, false, &WireError{Type: kind, Reason: "negative length"}
	}
	if size > c.max {
		return c.tooLong(kind, size)
	}
	if c.w-c.r-headerBytes < size {
		c.room(size + headerBytes)
		return message{}, false, nil
	}
	body := c.buf[c.r+headerBytes : c.r+headerBytes+size]
	c.r += headerBytes + size
	return message{kind, body, size}, true, nil
}

// buffered tells whether next has a whole message.
func (c *wire) buffered() bool {
	if c.skip >= c.w-c.r {
		return false
	}
	next := c.buf[c.r+c.skip : c.w]
	return len(next) >= headerBytes && len(next) > int(binary.BigEndian.Uint32(next[1:]))
}

// tooLong hands out the first bytes of a message and arranges that the rest is thrown away.
func (c *wire) tooLong(kind byte, size int) (message, bool, error) {
	keep := min(size, prefixBytes)
	if c.w-c.r-headerBytes < keep {
		return message{}, false, nil
	}
	body := c.buf[c.r+headerBytes : c.r+headerBytes+keep]
	c.r += headerBytes + keep
	c.skip = size - keep
	return message{kind, body, size}, true, nil
}

// room makes the buffer large enough for a message of n bytes; it becomes small again when the stream is quiet.
func (c *wire) room(n int) {
	if n <= len(c.buf) {
		return
	}
	buf := make([]byte, n+prefixBytes)
	c.w = copy(buf, c.buf[c.r:c.w])
	c.r, c.buf = 0, buf
}

// errNothing: the deadline came, or wake was called, before any byte.
var errNothing = errors.New("nothing to read yet")

// fill reads once, waiting until the given time at the latest (zero: no limit). Slices of earlier messages
// are void afterwards.
func (c *wire) fill(until time.Time) error {
	c.compact()
	for {
		deadline, burst := until, false
		if wait := c.pace.wait(); wait > 0 {
			if end := time.Now().Add(wait); until.IsZero() || end.Before(until) {
				deadline, burst = end, true
			}
		}
		if err := c.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
		if c.woken.Swap(false) {
			return errNothing
		}
		n, err := c.conn.Read(c.buf[c.w:])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			if errors.Is(err, io.EOF) {
				err = errClosedByServer
			}
			return err
		}
		if err != nil && n == 0 {
			if burst {
				c.gathered(0, true)
				continue
			}
			c.woken.Store(false)
			c.shrink()
			return errNothing
		}
		c.w += n
		c.gathered(n, false)
		if c.drop(); c.w > c.r {
			return nil
		}
	}
}

// gathered adapts the low-water mark to what the last read brought. A burst that timed out is judged by the
// read that follows it, since the kernel hands out what is there at once.
func (c *wire) gathered(n int, timedOut bool) {
	if c.tcp == nil {
		return
	}
	if timedOut && !c.timedOut {
		c.timedOut = true
		return
	}
	before := c.pace.mark
	after := c.pace.read(n, c.timedOut, time.Now())
	c.timedOut = false
	if after != before && max(after, quietMark) != max(before, quietMark) && !setLowWater(c.tcp, after) {
		c.tcp = nil
		c.pace = pace{}
	}
}

// drop throws away what belongs to a message that is too long.
func (c *wire) drop() {
	n := min(c.skip, c.w-c.r)
	c.skip -= n
	if c.r += n; c.r == c.w {
		c.r, c.w = 0, 0
	}
}

// compact moves the unread rest to the front.
func (c *wire) compact() {
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
}

// shrink gives a large buffer back once the stream is quiet.
func (c *wire) shrink() {
	if len(c.buf) > bufferBytes && c.w < bufferBytes/2 {
		buf := make([]byte, bufferBytes)
		copy(buf, c.buf[:c.w])
		c.buf = buf
	}
}

// wake makes a fill that waits, or the next one, return errNothing. Any goroutine may call it.
func (c *wire) wake() {
	c.woken.Store(true)
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs no wake
}
