package router

import "github.com/walrelay/walrelay/decoder"

// ColumnsOf are the columns of a table that have a meaning of their own, with those filled in that Config leaves to a
// preset.
func (c Config) ColumnsOf(rel *decoder.Relation) Columns {
	return c.resolved(columnNames(rel)).Columns
}
