package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// chunks is a connection that hands out its bytes in pieces of the wanted sizes, a deadline error for a size
// of 0, and EOF at the end.
type chunks struct {
	net.Conn
	data  []byte
	sizes []int
}

func (c *chunks) SetReadDeadline(time.Time) error { return nil }

func (c *chunks) Read(p []byte) (int, error) {
	n := len(p)
	if len(c.sizes) > 0 {
		n, c.sizes = c.sizes[0], c.sizes[1:]
	}
	if n == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n = copy(p[:min(n, len(p))], c.data)
	c.data = c.data[n:]
	return n, nil
}

func appendMessage(b []byte, kind byte, body []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	return append(b, body...)
}

// However the bytes are cut, the same messages come out; of one that is too long, its first bytes and size.
func TestWireCutsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 700_000 // above the buffer and the prefix
		bodies := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 7, 300, 5000, prefixBytes + 3, bufferBytes + 11, limit, limit + 1, 2 * limit}), 1, 12).Draw(t, "bodies")
		var data []byte
		for i, size := range bodies {
			data = appendMessage(data, 'd', bytes.Repeat([]byte{byte(i + 1)}, size))
		}
		sizes := rapid.SliceOf(rapid.SampledFrom([]int{0, 1, 2, 5, 100, 4096, 70_000, 1 << 20})).Draw(t, "reads")
		w := newWire(&chunks{data: data, sizes: sizes}, limit)

		var got int
		for got < len(bodies) {
			m, ok, err := w.next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				if w.buffered() {
					t.Fatal("buffered, yet there is no next message")
				}
				if err := w.fill(time.Time{}); err != nil && !errors.Is(err, errNothing) {
					t.Fatalf("message %d of %v: %v", got, bodies, err)
				}
				continue
			}
			want := bodies[got]
			if keep := min(want, prefixBytes); want > limit && len(m.body) != keep || want <= limit && len(m.body) != want {
				t.Fatalf("message %d of %d bytes has a body of %d", got, want, len(m.body))
			}
			if m.size != want || len(bytes.Trim(m.body, string([]byte{byte(got + 1)}))) != 0 {
				t.Fatalf("message %d: size %d, want %d, or foreign bytes in it", got, m.size, want)
			}
			got++
		}
	})
}

func TestWireNegativeLength(t *testing.T) {
	w := newWire(&chunks{data: []byte{'d', 0, 0, 0, 3}}, 100)
	if err := w.fill(time.Time{}); err != nil {
		t.Fatal(err)
	}
	var wire *WireError
	if _, _, err := w.next(); !errors.As(err, &wire) {
		t.Errorf("got %v, want a WireError", err)
	}
}

func TestWireGivesLargeBufferBack(t *testing.T) {
	data := appendMessage(nil, 'd', make([]byte, 4*bufferBytes))
	w := newWire(&chunks{data: append(data, 'd'), sizes: []int{1000, 4*bufferBytes + headerBytes - 1000, 1, 0}}, 8*bufferBytes)
	for {
		if _, ok, err := w.next(); err != nil {
			t.Fatal(err)
		} else if ok {
			break
		}
		if err := w.fill(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.buf) <= bufferBytes {
		t.Fatalf("buffer of %d cannot have held the message", len(w.buf))
	}
	if err := w.fill(time.Time{}); err != nil && !errors.Is(err, errNothing) { // the rest
		t.Fatal(err)
	}
	if err := w.fill(time.Time{}); !errors.Is(err, errNothing) {
		t.Fatal(err)
	}
	if len(w.buf) != bufferBytes || w.buf[w.r] != 'd' {
		t.Errorf("buffer has %d bytes and starts with %q", len(w.buf), w.buf[w.r])
	}
}

// A wake that comes before or during a read ends it once, and no read after it.
func TestWake(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	w := newWire(client, 100)

	w.wake()
	if err := w.fill(time.Time{}); !errors.Is(err, errNothing) {
		t.Fatalf("wake before: %v", err)
	}

	done := make(chan error)
	go func() { done <- w.fill(time.Time{}) }()
	w.wake()
	if err := <-done; !errors.Is(err, errNothing) {
		t.Fatalf("wake during: %v", err)
	}

	go func() { done <- w.fill(time.Time{}) }()
	if _, err := server.Write(appendMessage(nil, 'k', nil)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("the read after a wake: %v", err)
	}
}

func TestWireReadsWithoutAllocation(t *testing.T) {
	row := appendMessage(nil, 'd', make([]byte, 500))
	data := bytes.Repeat(row, 4000)
	source := &chunks{data: data}
	w := newWire(source, 10_000)
	allocs := testing.AllocsPerRun(100, func() {
		if len(source.data) < len(data)/2 {
			source.data = data
			w.r, w.w = 0, 0
		}
		if err := w.fill(time.Time{}); err != nil {
			t.Fatal(err)
		}
		for {
			if _, ok, err := w.next(); err != nil || !ok {
				return
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for one read", allocs)
	}
}
