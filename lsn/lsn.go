package lsn

import (
	"fmt"
	"strconv"
	"strings"
)

// Start is where the commit record of a transaction begins. BEGIN carries it ("final LSN"), so it is
// known before the first row of the transaction, and it names the transaction within one history.
type Start uint64

// End is a position up to which everything is known: just behind a commit record ("end LSN" of COMMIT), or
// the position of a keepalive. Only an End may be confirmed to Postgres. Zero means that nothing is known.
type End uint64

// CoveredBy tells whether Postgres, told that e is confirmed, will not send the transaction again.
func (s Start) CoveredBy(e End) bool { return uint64(s) < uint64(e) }

// String is the usual form of a position, such as 0/4003F00.
func (s Start) String() string { return string(appendText(nil, uint64(s))) }

// String is the usual form of a position, such as 0/4003F30.
func (e End) String() string { return string(appendText(nil, uint64(e))) }

// ParseEnd reads the form that Postgres prints; small letters and leading zeros are accepted, as Postgres does.
func ParseEnd(s string) (End, error) {
	v, err := parse(s)
	return End(v), err
}

func appendText(b []byte, v uint64) []byte {
	b = appendHex(b, v>>32)
	b = append(b, '/')
	return appendHex(b, v&0xffffffff)
}

func appendHex(b []byte, v uint64) []byte {
	const digits = "0123456789ABCDEF"
	shift := 0
	for v>>shift > 15 {
		shift += 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return b
}

func parse(s string) (uint64, error) {
	hi, lo, ok := strings.Cut(s, "/")
	h, errH := strconv.ParseUint(hi, 16, 32)
	l, errL := strconv.ParseUint(lo, 16, 32)
	if !ok || errH != nil || errL != nil {
		return 0, fmt.Errorf("lsn %q: want two hexadecimal numbers such as 0/16B3748", s)
	}
	return h<<32 | l, nil
}
