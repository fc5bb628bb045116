package decoder

// Message is what pg_logical_emit_message wrote. The slices are of the frame.
type Message struct {
	// Transactional messages stand in their transaction, in order with its rows. The others are sent at once,
	// even of a transaction that rolls back, and may stand anywhere between transactions.
	Transactional bool
	LSN           uint64 // of the message's own record; neither a commit nor confirmable
	Prefix        []byte
	Content       []byte
}

// decodeMessage: Int8 flags (1 = transactional), Int64 LSN, String prefix, Int32 length, the bytes.
func (d *Decoder) decodeMessage(c *cursor) {
	const transactionalFlag = 1
	flags := c.byte()
	if flags&^transactionalFlag != 0 {
		c.fail("flags %#x, only 1 is known", flags)
	}
	if flags == transactionalFlag {
		d.needTransaction(c)
	}
	m := Message{Transactional: flags == transactionalFlag, LSN: c.uint64(), Prefix: c.text()}
	m.Content = c.take(c.uint32())
	if c.done() {
		d.Message = m
	}
}
