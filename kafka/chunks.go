package kafka

import "io"

// chunks are bytes in pieces, so that what grows is not copied. The pieces come from a pool.
type chunks struct {
	parts [][]byte
	size  int
}

// chunkFor is the size of the next chunk where so many bytes are there or expected: large enough that there are few, small enough
// that little lies unused at a batch's end.
func chunkFor(size int) int {
	switch {
	case size >= largeBuffer:
		return largeBuffer
	case size > smallBuffer:
		return mediumBuffer
	}
	return smallBuffer
}

// begin makes an empty first chunk, of bytes of which there will probably be as many as hint.
func (c *chunks) begin(pool *bufferPool, hint int) {
	c.parts = append(c.parts, pool.first(chunkFor(hint)))
}

// reserve makes room for n bytes behind one another in the last chunk, and returns that chunk. What is appended to it
// must be given to set.
func (c *chunks) reserve(pool *bufferPool, n int) []byte {
	last := c.parts[len(c.parts)-1]
	if len(last)+n > cap(last) {
		last = pool.get(max(n, chunkFor(c.size)))
		c.parts = append(c.parts, last)
	}
	return last
}

// set takes the last chunk with what was appended.
func (c *chunks) set(last []byte) {
	at := &c.parts[len(c.parts)-1]
	c.size += len(last) - len(*at)
	*at = last
}

// release gives the memory back.
func (c *chunks) release(pool *bufferPool) {
	for i, part := range c.parts {
		pool.put(part)
		c.parts[i] = nil
	}
	c.parts, c.size = c.parts[:0], 0
}

// chunkWriter appends to chunks, across their borders.
type chunkWriter struct {
	*chunks
	pool *bufferPool
}

func (w chunkWriter) Write(b []byte) (int, error) {
	written := len(b)
	for len(b) > 0 {
		last := w.reserve(w.pool, 1)
		n := min(len(b), cap(last)-len(last))
		w.set(append(last, b[:n]...))
		b = b[n:]
	}
	return written, nil
}

// chunkReader reads chunks from one end to the other.
type chunkReader struct{ rest [][]byte }

func (r *chunkReader) Read(b []byte) (int, error) {
	for len(r.rest) > 0 && len(r.rest[0]) == 0 {
		r.rest = r.rest[1:]
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.rest[0])
	if n == len(r.rest[0]) {
		r.rest = r.rest[1:]
	} else { // the chunks belong to their batch: the list must not change
		r.rest = append([][]byte{r.rest[0][n:]}, r.rest[1:]...)
	}
	return n, nil
}

// WriteTo is what the codecs use.
func (r *chunkReader) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for ; len(r.rest) > 0; r.rest = r.rest[1:] {
		n, err := w.Write(r.rest[0])
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
