package decoder

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// FrameError says why a frame cannot be decoded. It never holds bytes of a value, so it may be logged.
type FrameError struct {
	Kind   Kind   // type byte of the frame; 0 for an empty one
	Offset int    // byte of the frame at which decoding stopped
	Reason string // what was found there
}

// Error names the message, the place and the reason.
func (e *FrameError) Error() string {
	return fmt.Sprintf("decode pgoutput %v at byte %d: %s", e.Kind, e.Offset, e.Reason)
}

// cursor walks over one frame. The first failure stays: it empties the rest, so that every later read
// returns zero, and the caller asks once, at the end.
type cursor struct {
	rest   []byte // not yet read
	size   int    // of the whole frame
	offset int    // of the failure
	reason string // of the failure; empty while there is none
}

func (c *cursor) fail(format string, args ...any) {
	if c.reason == "" {
		c.offset = c.size - len(c.rest)
		c.reason = fmt.Sprintf(format, args...)
		c.rest = nil
	}
}

func (c *cursor) short(want uint64) {
	c.fail("%d bytes wanted, %d left", want, len(c.rest))
}

// done tells whether the frame was read without failure. Bytes that are left over are one.
func (c *cursor) done() bool {
	if len(c.rest) > 0 {
		c.fail("%d bytes behind the end of the message", len(c.rest))
	}
	return c.reason == ""
}

func (c *cursor) byte() byte {
	if len(c.rest) < 1 {
		c.short(1)
		return 0
	}
	v := c.rest[0]
	c.rest = c.rest[1:]
	return v
}

func (c *cursor) uint16() uint16 {
	if len(c.rest) < 2 {
		c.short(2)
		return 0
	}
	v := binary.BigEndian.Uint16(c.rest)
	c.rest = c.rest[2:]
	return v
}

func (c *cursor) uint32() uint32 {
	if len(c.rest) < 4 {
		c.short(4)
		return 0
	}
	v := binary.BigEndian.Uint32(c.rest)
	c.rest = c.rest[4:]
	return v
}

func (c *cursor) uint64() uint64 {
	if len(c.rest) < 8 {
		c.short(8)
		return 0
	}
	v := binary.BigEndian.Uint64(c.rest)
	c.rest = c.rest[8:]
	return v
}

// Between the epochs of Postgres (2000-01-01) and Unix (1970-01-01) lie 10957 days.
const epochMicros = 10957 * 86400 * 1_000_000

// time reads a TimestampTz: µs since 2000 on the wire, µs since 1970 for us.
func (c *cursor) time() int64 { return int64(c.uint64()) + epochMicros }

// take returns the next n bytes as a slice of the frame, not nil when n is 0. Its capacity ends with it, so
// that an append of the caller cannot reach the bytes behind.
func (c *cursor) take(n uint32) []byte {
	if uint64(n) > uint64(len(c.rest)) {
		c.short(uint64(n))
		return nil
	}
	v := c.rest[:n:n]
	c.rest = c.rest[n:]
	return v
}

// text reads a string that ends with a zero byte, and returns it without that.
func (c *cursor) text() []byte {
	n := bytes.IndexByte(c.rest, 0)
	if n < 0 {
		c.fail("text without a zero byte at its end")
		return nil
	}
	v := c.rest[:n:n]
	c.rest = c.rest[n+1:]
	return v
}
