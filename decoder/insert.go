package decoder

// Row is a row of an INSERT, valid until the next Decode.
type Row struct {
	Relation *Relation
	Columns  []Column // in the order of Relation.Columns and as many
}

// decodeInsert: Int32 oid of the relation, Byte1 'N', TupleData.
func (d *Decoder) decodeInsert(c *cursor) {
	d.needTransaction(c)
	oid := c.uint32()
	r := d.relations[oid]
	if r == nil {
		c.fail("relation %d was not announced", oid)
		return
	}
	if tag := c.byte(); tag != 'N' {
		c.fail("tuple tag is not 'N'")
		return
	}
	columns := d.columns[:len(r.Columns)]
	c.tuple(columns)
	if c.done() {
		d.Row = Row{Relation: r, Columns: columns}
	}
}
