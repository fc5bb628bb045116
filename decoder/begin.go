package decoder

import "github.com/walrelay/walrelay/lsn"

// Begin opens a transaction. Postgres sends transactions whole, after their commit and in the order of their commit
// records, so all of this is known before the first row.
type Begin struct {
	Commit lsn.Start // start of the commit record ("final LSN")
	Time   int64     // commit time, µs since 1970
	XID    uint32
}

// decodeBegin: Int64 final LSN, Int64 commit time, Int32 xid.
func (d *Decoder) decodeBegin(c *cursor) {
	if d.open {
		c.fail("a transaction is already open")
	}
	b := Begin{Commit: lsn.Start(c.uint64()), Time: c.time(), XID: c.uint32()}
	switch {
	case !c.done():
	case b.Commit.CoveredBy(d.Commit.End):
		// Commit order is the promise that all else rests on: what is confirmed covers everything before it.
		c.fail("commit record at %v, but the transaction before ends at %v", b.Commit, d.Commit.End)
	default:
		d.Begin, d.open = b, true
	}
}
