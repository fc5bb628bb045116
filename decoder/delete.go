package decoder

// decodeDelete: Int32 oid of the relation, Byte1 'K' or 'O', TupleData.
func (d *Decoder) decodeDelete(c *cursor) {
	d.needTransaction(c)
	c.uint32()
	if tag := c.byte(); tag != 'K' && tag != 'O' {
		c.fail("tuple tag is not 'K' or 'O'")
	}
	c.skipTuple()
	c.done()
}
