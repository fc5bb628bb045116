package router

import (
	"strconv"

	"github.com/walrelay/walrelay/lsn"
)

// positionText writes identities. Within a transaction only the ordinal, at the end, changes.
type positionText struct {
	of   lsn.Identity // without ordinal
	text []byte       // of it, without the ordinal's digit
}

func (p *positionText) append(dst []byte, id lsn.Identity) []byte {
	ordinal := id.Ordinal
	id.Ordinal = 0
	if id != p.of || p.text == nil {
		p.of = id
		p.text = id.Append(p.text[:0])
		p.text = p.text[:len(p.text)-1]
	}
	return strconv.AppendUint(append(dst, p.text...), uint64(ordinal), 10)
}
