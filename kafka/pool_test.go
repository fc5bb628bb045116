package kafka

import (
	"testing"

	"pgregory.net/rapid"
)

// Free buffers never make the pool larger than it may be, whatever is handed out and in which sizes, and what is handed out has
// the room that was asked for.
func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pool := &bufferPool{keep: 256 << 10}
		var out [][]byte
		held := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(out) > 0 && rapid.Bool().Draw(t, "back") {
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				held -= cap(out[i])
				pool.put(out[i])
				out[i] = out[len(out)-1]
				out = out[:len(out)-1]
			} else {
				size := rapid.SampledFrom([]int{1, 511, 513, 4 << 10, 5000, 32 << 10, 100_000, 3 << 20}).Draw(t, "size")
				buf := pool.get(size)
				if len(buf) != 0 || cap(buf) < size {
					t.Fatalf("asked for %d, got %d of %d", size, len(buf), cap(buf))
				}
				held += cap(buf)
				out = append(out, buf)
			}
			kept := 0
			for _, list := range pool.free {
				for _, buf := range list {
					kept += cap(buf)
				}
			}
			if pool.out != held || pool.kept != kept || kept > 0 && kept+held > pool.keep {
				t.Fatalf("%d of %d are out, %d of %d are kept", pool.out, held, pool.kept, kept)
			}
		}
	})
}
