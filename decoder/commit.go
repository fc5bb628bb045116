package decoder

import "github.com/walrelay/walrelay/lsn"

// Commit closes a transaction.
type Commit struct {
	Start lsn.Start // start of the commit record, the same as in Begin
	End   lsn.End   // just behind the commit record: what may be confirmed
	Time  int64     // commit time, µs since 1970
}

// decodeCommit: Int8 flags (always 0), Int64 start of the commit record, Int64 end of the transaction, Int64
// commit time.
func (d *Decoder) decodeCommit(c *cursor) {
	d.needTransaction(c)
	if flags := c.byte(); flags != 0 {
		c.fail("flags %#x, only 0 is known", flags)
	}
	m := Commit{Start: lsn.Start(c.uint64()), End: lsn.End(c.uint64()), Time: c.time()}
	if !c.done() {
		return
	}
	switch {
	case m.Start != d.Begin.Commit:
		c.fail("commit record at %v, but the open transaction's is at %v", m.Start, d.Begin.Commit)
	case !m.Start.CoveredBy(m.End):
		// To confirm such an end would not keep Postgres from sending the transaction again.
		c.fail("end %v is not behind the commit record at %v", m.End, m.Start)
	default:
		d.Commit, d.open = m, false
	}
}
