package kafka

import (
	"math/bits"
	"sync"
)

// Buffers come in three sizes, and above the largest in powers of two: with many sizes, those that are free are seldom of the
// one that is wanted.
const (
	smallBuffer  = 512     // a partition that gets a record now and then must be cheap
	mediumBuffer = 4 << 10 // what lies unused at the end of a batch is little also with hundreds of partitions
	largeBuffer  = 32 << 10
	// maxBufferBits: 2 MiB. Above it are only single huge records, which are left to the collector.
	maxBufferBits = 21
)

// bufferPool keeps the buffers of acknowledged batches for the next ones. It is safe for concurrent use.
type bufferPool struct {
	mu   sync.Mutex
	free [maxBufferBits + 1][][]byte // by the power of two
	kept int                         // bytes in free
	out  int                         // bytes handed out
	keep int                         // free buffers are kept as long as they and those handed out are not more
}

// classOf is the power of two of the buffer for so many bytes.
func classOf(size int) int {
	for _, buffer := range []int{smallBuffer, mediumBuffer, largeBuffer} {
		if size <= buffer {
			size = buffer
			break
		}
	}
	return bits.Len(uint(size - 1))
}

// get returns an empty buffer with room for at least size bytes.
func (p *bufferPool) get(size int) []byte {
	class := classOf(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	if class > maxBufferBits {
		p.out += size
		p.shrink()
		return make([]byte, 0, size)
	}
	p.out += 1 << class
	list := p.free[class]
	if len(list) == 0 {
		p.shrink()
		return make([]byte, 0, 1<<class)
	}
	buf := list[len(list)-1]
	p.free[class] = list[:len(list)-1]
	p.kept -= cap(buf)
	return buf
}

// shrink leaves free buffers to the collector until all together are not too many, the large ones first.
func (p *bufferPool) shrink() {
	for class := maxBufferBits; class >= 0 && p.kept+p.out > p.keep; class-- {
		for list := p.free[class]; len(list) > 0 && p.kept+p.out > p.keep; list = p.free[class] {
			last := len(list) - 1
			p.kept -= cap(list[last])
			list[last] = nil
			p.free[class] = list[:last]
		}
	}
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
	return p.get(max(guess, smallBuffer))
}

// put takes a buffer back.
func (p *bufferPool) put(buf []byte) {
	class := bits.Len(uint(cap(buf))) - 1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out -= cap(buf)
	if class > maxBufferBits || cap(buf) != 1<<class || p.kept+p.out+cap(buf) > p.keep {
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
