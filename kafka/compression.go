package kafka

import (
	"fmt"

	"github.com/segmentio/kafka-go/compress"
)

// pack compresses the records of the batch, behind space for the header.
func (b *batch) pack(codec compress.Codec, pool *bufferPool) error {
	b.packed.begin(pool, b.plain.size/4)
	b.packed.set(b.packed.reserve(pool, batchOverhead)[:batchOverhead])
	w := codec.NewWriter(chunkWriter{&b.packed, pool})
	err := b.writeRecords(w.Write)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("compress batch with %s: %w", codec.Name(), err)
	}
	return nil
}

func (b *batch) writeRecords(write func([]byte) (int, error)) error {
	skip := batchOverhead
	for _, part := range b.plain.parts {
		if _, err := write(part[skip:]); err != nil {
			return err
		}
		skip = 0
	}
	return nil
}
