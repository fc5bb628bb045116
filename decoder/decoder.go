package decoder

// Decoder holds what must be remembered from frame to frame of one connection: the relations, and whether a
// transaction is open. The exported fields are what the last frame of their kind carried.
type Decoder struct {
	Begin    Begin
	Commit   Commit
	Row      Row
	Message  Message
	Relation *Relation // nil before the first

	open      bool // between BEGIN and COMMIT
	relations map[uint32]*Relation
	columns   []Column // backs Row.Columns; as long as the widest relation
}

// New returns a Decoder for the first frame of a connection.
func New() *Decoder {
	return &Decoder{relations: make(map[uint32]*Relation)}
}

// Reset forgets everything. On a new connection Postgres goes back to the slot's position, sends an open transaction
// again from its BEGIN, and every relation before its first row.
func (d *Decoder) Reset() { *d = *New() }

// Decode reads one frame, the WAL data of one XLogData message, and leaves its content in the field that
// belongs to the returned kind. Any error is a *FrameError; the frame has then changed no state, except that
// Row.Columns may be overwritten.
func (d *Decoder) Decode(frame []byte) (Kind, error) {
	if len(frame) == 0 {
		return 0, &FrameError{Reason: "the frame is empty"}
	}
	kind := Kind(frame[0])
	c := cursor{rest: frame[1:], size: len(frame)}
	switch kind {
	case KindInsert:
		d.decodeInsert(&c)
	case KindBegin:
		d.decodeBegin(&c)
	case KindCommit:
		d.decodeCommit(&c)
	case KindRelation:
		d.decodeRelation(&c)
	case KindMessage:
		d.decodeMessage(&c)
	case KindUpdate:
		d.decodeUpdate(&c)
	case KindDelete:
		d.decodeDelete(&c)
	case KindTruncate:
		d.decodeTruncate(&c)
	case KindType:
		d.decodeType(&c)
	case KindOrigin:
		d.decodeOrigin(&c)
	default:
		c.fail("not a message type of protocol version 1")
	}
	if c.reason != "" {
		return kind, &FrameError{Kind: kind, Offset: c.offset, Reason: c.reason}
	}
	return kind, nil
}

// Described is the relation with this oid as it was last described; nil if it was not. It is for a frame that is too
// long to be decoded.
func (d *Decoder) Described(oid uint32) *Relation { return d.relations[oid] }

// needTransaction fails where no transaction is open. Postgres sends everything but BEGIN and non-transactional
// messages inside one.
func (d *Decoder) needTransaction(c *cursor) {
	if !d.open {
		c.fail("no transaction is open")
	}
}
