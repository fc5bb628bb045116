package kafka

import (
	"math/bits"
	"sync"
)

// Buffers come in powers of two.
const (
	minBufferBits = 9  // 512 B: a partition that gets a record now and then must be cheap
	maxBufferBits = 21 // 2 MiB: above it only single huge records, which are left to the collector
)

// bufferPool keeps the buffers of acknowledged batches for the next ones. It is safe for concurrent use.
type bufferPool struct {
	mu   sync.Mutex
	free [maxBufferBits + 1][][]byte
	kept int // bytes in free
	keep int // most bytes in free
	out  int // bytes handed out
}

// get returns an empty buffer with room for at least size bytes.
func (p *bufferPool) get(size int) []byte {
	class := max(minBufferBits, bits.Len(uint(size-1)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if class > maxBufferBits {
		p.out += size
		return make([]byte, 0, size)
	}
	p.out += 1 << class
	list := p.free[class]
	if len(list) == 0 {
		return make([]byte, 0, 1<<class)
	}
	buf := list[len(list)-1]
	p.free[class] = list[:len(list)-1]
	p.kept -= cap(buf)
	return buf
}

// first returns an empty buffer for a batch that will probably have so many bytes, or a small one where so much is
// handed out already that the guess must have been wrong for many.
func (p *bufferPool) first(guess int) []byte {
	p.mu.Lock()
	wrong := p.out+guess > p.keep
	p.mu.Unlock()
	if wrong {
		guess = 0
	}
	return p.get(max(guess, 1<<minBufferBits))
}

// put takes a buffer back.
func (p *bufferPool) put(buf []byte) {
	class := bits.Len(uint(cap(buf))) - 1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out -= cap(buf)
	if class > maxBufferBits || cap(buf) != 1<<class || p.kept+cap(buf) > p.keep {
		return
	}
	p.kept += cap(buf)
	p.free[class] = append(p.free[class], buf[:0])
}

// drop leaves what is kept to the collector.
func (p *bufferPool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.free[:])
	p.kept = 0
}
