package kafka

import "encoding/binary"

// partitionOf is the partition of a key among n, as the Java producer computes it (BuiltInPartitioner:
// toPositive(murmur2(key)) % n), so that a relay may take over from one, or write beside one.
func partitionOf(key []byte, n int) int32 {
	return int32(int(murmur2(key)&0x7fffffff) % n)
}

// murmur2 is the hash of Kafka's Utils.murmur2.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for len(data) >= 4 {
		k := binary.LittleEndian.Uint32(data)
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
		data = data[4:]
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
