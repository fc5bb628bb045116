package kafka

import (
	"bytes"
	"io"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is reserved or written, in whatever pieces, comes out again in order, and the memory goes back.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := &bufferPool{keep: 1 << 20}
		var c chunks
		var want []byte
		c.begin(pool, rapid.IntRange(0, 100_000).Draw(t, "hint"))
		for i := range rapid.IntRange(0, 30).Draw(t, "pieces") {
			piece := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(0, 50_000).Draw(t, "size"))
			want = append(want, piece...)
			if rapid.Bool().Draw(t, "cut") {
				_, _ = chunkWriter{&c, pool}.Write(piece)
				continue
			}
			chunk := c.reserve(pool, len(piece))
			if cap(chunk)-len(chunk) < len(piece) {
				t.Fatalf("room for %d bytes, want %d", cap(chunk)-len(chunk), len(piece))
			}
			c.set(append(chunk, piece...))
		}
		if c.size != len(want) {
			t.Fatalf("size %d, want %d", c.size, len(want))
		}
		for range 2 { // a batch may be sent again
			var copied bytes.Buffer
			if n, err := (&chunkReader{c.parts}).WriteTo(&copied); err != nil || int(n) != len(want) || !bytes.Equal(copied.Bytes(), want) {
				t.Fatalf("WriteTo gave %d bytes, %v", n, err)
			}
			read, err := io.ReadAll(io.LimitReader(&chunkReader{c.parts}, 1<<30))
			if err != nil || !bytes.Equal(read, want) {
				t.Fatalf("Read gave %d bytes, %v", len(read), err)
			}
		}
		c.release(pool)
		if pool.out != 0 || pool.kept > pool.keep {
			t.Fatalf("%d bytes are not given back, %d are kept", pool.out, pool.kept)
		}
	})
}
