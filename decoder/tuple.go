package decoder

import "encoding/binary"

// The values of Column.Kind.
const (
	ColumnNull      byte = 'n' // NULL
	ColumnText      byte = 't' // Data is what the type's output function printed
	ColumnBinary    byte = 'b' // Data is what the type's send function wrote
	ColumnUnchanged byte = 'u' // a TOASTed value that an UPDATE left alone; not sent
)

// Column is one value of a row.
type Column struct {
	Kind byte   // ColumnNull, ColumnText, ColumnBinary or ColumnUnchanged
	Data []byte // slice of the frame; nil when Kind is ColumnNull or ColumnUnchanged
}

// tuple reads TupleData: Int16 number of columns; for each Byte1 kind and, for text and binary, Int32 length
// and the bytes. There must be as many columns as the relation has: a row that is read against another shape is
// another row.
func (c *cursor) tuple(columns []Column) {
	if n := int(c.uint16()); n != len(columns) {
		c.fail("%d columns, the relation has %d", n, len(columns))
		return
	}
	for i := range columns {
		columns[i] = c.column()
	}
}

// skipTuple walks over TupleData.
func (c *cursor) skipTuple() {
	for n := c.uint16(); n > 0; n-- {
		c.column()
	}
}

// column is on the path of every value, hence one walk with a local rest instead of byte, uint32 and take: a third
// less time a row.
func (c *cursor) column() Column {
	const head = 1 + 4 // kind and length
	rest := c.rest
	if len(rest) == 0 {
		c.short(1)
		return Column{}
	}
	kind := rest[0]
	switch {
	case kind == ColumnNull || kind == ColumnUnchanged:
		c.rest = rest[1:]
		return Column{Kind: kind}
	case kind != ColumnText && kind != ColumnBinary:
		c.fail("unknown column kind") // not which: in a frame out of step it is a byte of a value
		return Column{}
	case len(rest) < head:
		c.short(head)
		return Column{}
	}
	n := binary.BigEndian.Uint32(rest[1:])
	rest = rest[head:]
	if uint64(n) > uint64(len(rest)) {
		c.rest = rest
		c.short(uint64(n))
		return Column{}
	}
	c.rest = rest[n:]
	return Column{Kind: kind, Data: rest[:n:n]}
}
