package decoder

// decodeUpdate: Int32 oid of the relation, optionally Byte1 'K' or 'O' and the old TupleData, Byte1 'N' and the new
// TupleData.
func (d *Decoder) decodeUpdate(c *cursor) {
	d.needTransaction(c)
	c.uint32()
	tag := c.byte()
	if tag == 'K' || tag == 'O' {
		c.skipTuple()
		tag = c.byte()
	}
	if tag != 'N' {
		c.fail("tuple tag is not 'K', 'O' or 'N'")
	}
	c.skipTuple()
	c.done()
}
