package pgoutputtest

import (
	"encoding/binary"

	"github.com/walrelay/walrelay/decoder"
)

const epochMicros = 946_684_800_000_000 // 2000-01-01 in µs since 1970

var be = binary.BigEndian

// Begin is the frame of a BEGIN.
func Begin(b decoder.Begin) []byte {
	f := be.AppendUint64([]byte{'B'}, uint64(b.Commit))
	f = be.AppendUint64(f, uint64(b.Time-epochMicros))
	return be.AppendUint32(f, b.XID)
}

// Commit is the frame of a COMMIT.
func Commit(c decoder.Commit) []byte {
	f := be.AppendUint64([]byte{'C', 0}, uint64(c.Start))
	f = be.AppendUint64(f, uint64(c.End))
	return be.AppendUint64(f, uint64(c.Time-epochMicros))
}

// Relation is the frame that announces r.
func Relation(r decoder.Relation) []byte {
	f := be.AppendUint32([]byte{'R'}, r.ID)
	f = appendText(appendText(f, r.Namespace), r.Name)
	f = be.AppendUint16(append(f, r.Identity), uint16(len(r.Columns)))
	for _, column := range r.Columns {
		flags := byte(0)
		if column.Key {
			flags = 1
		}
		f = appendText(append(f, flags), column.Name)
		f = be.AppendUint32(be.AppendUint32(f, column.Type), uint32(column.Modifier))
	}
	return f
}

// Insert is the frame of an INSERT into the relation with this oid.
func Insert(relation uint32, columns ...decoder.Column) []byte {
	f := append(be.AppendUint32([]byte{'I'}, relation), 'N')
	return AppendTuple(f, columns...)
}

// AppendTuple appends TupleData, as INSERT, UPDATE and DELETE carry it.
func AppendTuple(f []byte, columns ...decoder.Column) []byte {
	f = be.AppendUint16(f, uint16(len(columns)))
	for _, column := range columns {
		f = append(f, column.Kind)
		if column.Kind == decoder.ColumnText || column.Kind == decoder.ColumnBinary {
			f = be.AppendUint32(f, uint32(len(column.Data)))
			f = append(f, column.Data...)
		}
	}
	return f
}

// Message is the frame of a logical message.
func Message(m decoder.Message) []byte {
	f := []byte{'M', 0}
	if m.Transactional {
		f[1] = 1
	}
	f = appendText(be.AppendUint64(f, m.LSN), string(m.Prefix))
	f = be.AppendUint32(f, uint32(len(m.Content)))
	return append(f, m.Content...)
}

// Text is a column in text format.
func Text(s string) decoder.Column {
	return decoder.Column{Kind: decoder.ColumnText, Data: []byte(s)}
}

// Null is a column that is NULL.
func Null() decoder.Column { return decoder.Column{Kind: decoder.ColumnNull} }

func appendText(f []byte, s string) []byte { return append(append(f, s...), 0) }
