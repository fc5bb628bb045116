package decoder

// decodeTruncate: Int32 number of relations, Int8 options, Int32 oid of each relation.
func (d *Decoder) decodeTruncate(c *cursor) {
	d.needTransaction(c)
	n := c.uint32()
	c.byte()
	for ; n > 0 && c.reason == ""; n-- {
		c.uint32()
	}
	c.done()
}
