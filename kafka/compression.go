package kafka

import (
	"fmt"

	"github.com/segmentio/kafka-go/compress"
)

// compressRecords compresses the records of an encoded batch into a buffer of the pool, behind the header's space.
func compressRecords(codec compress.Codec, encoded []byte, pool *bufferPool) ([]byte, error) {
	out := &growingBuffer{pool: pool, buf: pool.get(batchOverhead + len(encoded)/4)[:batchOverhead]}
	w := codec.NewWriter(out)
	_, err := w.Write(encoded[batchOverhead:])
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("compress batch with %s: %w", codec.Name(), err)
	}
	return out.buf, nil
}

// growingBuffer is an io.Writer whose memory comes from a pool.
type growingBuffer struct {
	pool *bufferPool
	buf  []byte
}

func (g *growingBuffer) Write(b []byte) (int, error) {
	g.buf = append(g.pool.grow(g.buf, len(b)), b...)
	return len(b), nil
}
