package decoder

// decodeOrigin: Int64 commit position on the origin server, String name of the origin. Sent after the BEGIN of a
// transaction that was itself replicated from elsewhere.
func (d *Decoder) decodeOrigin(c *cursor) {
	d.needTransaction(c)
	c.uint64()
	c.text()
	c.done()
}
