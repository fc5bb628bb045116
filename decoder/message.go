package decoder

import "bytes"

// Message is what pg_logical_emit_message wrote. The slices are of the frame.
type Message struct {
	// Transactional messages stand in their transaction, in order with its rows. The others are sent at once,
	// even of a transaction that rolls back, and may stand anywhere between transactions.
	Transactional bool
	LSN           uint64 // of the message's own record; neither a commit nor confirmable
	Prefix        []byte
	Content       []byte
}

// MessageHead reads what a Message frame begins with, for one that is too long to be kept: all but its content. Where head
// ends inside the prefix, so does Prefix; where it is not a message at all, the Message is zero.
func MessageHead(head []byte) (m Message) {
	if len(head) < 1+1+8 || Kind(head[0]) != KindMessage {
		return m
	}
	c := cursor{rest: head[1:], size: len(head)}
	m.Transactional = c.byte()&transactionalFlag != 0
	m.LSN = c.uint64()
	m.Prefix, _, _ = bytes.Cut(c.rest, []byte{0})
	return m
}

const transactionalFlag = 1

// decodeMessage: Int8 flags (1 = transactional), Int64 LSN, String prefix, Int32 length, the bytes.
func (d *Decoder) decodeMessage(c *cursor) {
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
