package decoder

// Relation is the shape of a table as of the rows that follow it. Postgres sends it before the first row of a
// table on a connection, after each change of the table, and sometimes without one. Under
// publish_via_partition_root the leaf of a row is announced too, behind its root, and rows never name it.
//
// A new message makes a new Relation, and none is changed once decoded: equal pointers mean an equal shape.
type Relation struct {
	ID        uint32 // oid of the table, or of its root under publish_via_partition_root
	Namespace string // schema; empty for pg_catalog
	Name      string
	Identity  byte // replica identity, as in pg_class.relreplident
	Columns   []RelationColumn
}

// RelationColumn is one published column of a Relation.
type RelationColumn struct {
	Name     string
	Type     uint32 // oid of the data type
	Modifier int32  // atttypmod; -1 for none
	Key      bool   // part of the replica identity
}

// A column takes at least flags, the zero byte of its name, type and modifier.
const minRelationColumn = 1 + 1 + 4 + 4

// decodeRelation: Int32 oid, String namespace, String name, Int8 replica identity, Int16 number of columns; for
// each Int8 flags, String name, Int32 type, Int32 modifier.
func (d *Decoder) decodeRelation(c *cursor) {
	d.needTransaction(c)
	r := &Relation{ID: c.uint32(), Namespace: string(c.text()), Name: string(c.text()), Identity: c.byte()}
	n := int(c.uint16())
	if n*minRelationColumn > len(c.rest) {
		c.fail("%d columns do not fit into %d bytes", n, len(c.rest))
		return
	}
	r.Columns = make([]RelationColumn, n)
	for i := range r.Columns {
		r.Columns[i] = c.relationColumn()
	}
	if !c.done() {
		return
	}
	d.relations[r.ID] = r
	d.Relation = r
	if n > len(d.columns) {
		d.columns = make([]Column, n)
	}
}

func (c *cursor) relationColumn() RelationColumn {
	const keyFlag = 1
	flags := c.byte()
	return RelationColumn{
		Key: flags&keyFlag != 0, Name: string(c.text()), Type: c.uint32(), Modifier: int32(c.uint32()),
	}
}
