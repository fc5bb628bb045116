package kafka

import (
	"math/bits"
	"sync"
)

// Buffers come in powers of two, so that one that is too small for its batch is replaced by one of twice the size.
const (
	minBufferBits = 9  // 512 B: a partition that gets a record now and then must be cheap
	maxBufferBits = 21 // 2 MiB: a full batch; above it only single huge records, which are left to the collector
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

// begin returns an empty buffer for a batch whose forerunner had a buffer of so many bytes. That saves the copies of
// growing, unless so much is handed out already that large buffers for small batches would be a waste.
func (p *bufferPool) begin(forerunner int) []byte {
	p.mu.Lock()
	lavish := p.out+forerunner > 2*p.keep
	p.mu.Unlock()
	if lavish {
		forerunner = 0
	}
	return p.get(max(forerunner, 1<<minBufferBits))
}

// grow returns a buffer with the contents of buf and room for extra bytes more.
func (p *bufferPool) grow(buf []byte, extra int) []byte {
	if len(buf)+extra <= cap(buf) {
		return buf
	}
	larger := append(p.get(len(buf)+extra), buf...)
	p.put(buf)
	return larger
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
