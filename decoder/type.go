package decoder

// decodeType: Int32 oid, String namespace, String name of a data type that is not built in. Sent before a relation
// that uses it.
func (d *Decoder) decodeType(c *cursor) {
	d.needTransaction(c)
	c.uint32()
	c.text()
	c.text()
	c.done()
}
