package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// newest is the time of the newest id, in 1/4096 ms since 1970.
var newest atomic.Int64

// NewID makes a UUIDv7 (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, 62 random bits. Ids of one process
// sort in the order in which they were made, so that the order of events can be told from a table.
func NewID() string {
	at := next(time.Now())
	var id [16]byte
	_, _ = rand.Read(id[8:]) // never fails
	binary.BigEndian.PutUint64(id[:8], uint64(at>>12)<<16|0x7000|uint64(at&0xfff))
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// next is the time of the next id: now, or just after the one before.
func next(now time.Time) int64 {
	at := now.UnixMilli()<<12 | int64(now.Nanosecond()%1e6)*4096/1e6
	for {
		last := newest.Load()
		mine := max(at, last+1)
		if newest.CompareAndSwap(last, mine) {
			return mine
		}
	}
}
