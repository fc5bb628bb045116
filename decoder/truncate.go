package decoder

// decodeTruncate: Int32 number of relations, Int8 options, Int32 oid of each relation.
func (d *Decoder) decodeTruncate(c *cursor) {
	d.needTransaction(c)
	oids := 4 * uint64(c.uint32()) // in bytes
	c.byte()
	if left := uint64(len(c.rest)); left != oids {
		c.fail("%d bytes of oids wanted, %d left", oids, left)
	}
}
