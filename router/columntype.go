package router

import (
	"slices"
	"strconv"
)

// oids of the built-in types that are not written as the text that Postgres sends (src/include/catalog/pg_type.dat).
const (
	oidBool, oidBytea, oidChar, oidName = 16, 17, 18, 19
	oidInt8, oidInt2, oidInt4, oidText  = 20, 21, 23, 25
	oidOid, oidJSON, oidXML, oidPoint   = 26, 114, 142, 600
	oidFloat4, oidFloat8, oidMoney      = 700, 701, 790
	oidBpchar, oidVarchar               = 1042, 1043
	oidDate, oidTime, oidTimestamp      = 1082, 1083, 1114
	oidTimestamptz, oidInterval         = 1184, 1186
	oidTimetz, oidBit, oidVarbit        = 1266, 1560, 1562
	oidNumeric, oidUUID                 = 1700, 2950
	oidTsvector, oidJSONB               = 3614, 3802

	firstUserOid = 16384 // FirstNormalObjectId: types that users and extensions made
)

// elementOids gives the element type of the built-in arrays that Debezium knows.
var elementOids = map[uint32]uint32{
	199: oidJSON, 651: 650, 1000: oidBool, 1001: oidBytea, 1002: oidChar, 1005: oidInt2, 1007: oidInt4,
	1009: oidText, 1014: oidBpchar, 1015: oidVarchar, 1016: oidInt8, 1021: oidFloat4, 1022: oidFloat8, 1028: oidOid,
	1040: 829, 775: 774, 1041: 869, 1115: oidTimestamp, 1182: oidDate, 1183: oidTime, 1185: oidTimestamptz,
	1231: oidNumeric, 1270: oidTimetz, 2951: oidUUID, 3807: oidJSONB, 3905: 3904, 3907: 3906, 3909: 3908, 3911: 3910,
	3913: 3912, 3927: 3926,
}

// kind is how a value is written.
type kind uint8

const (
	kindText            kind = iota // the text that Postgres sends, a string
	kindInt                         // the text that Postgres sends, a number
	kindBool                        // true or false
	kindFloat                       // Java's text of a float of length bits
	kindDecimal                     // a decimal with a fixed scale
	kindVariableDecimal             // a numeric without a declared scale: {"scale":…,"value":…}
	kindMoney                       // a decimal of scale 2 with a currency
	kindBytes                       // bytea
	kindBase64
	kindBase64URL
	kindHex
	kindBits // bit strings of more than one bit
	kindBit  // one bit, true or false
	kindPoint
	kindDate        // days, or as unit says
	kindTime        // since midnight
	kindTimestamp   // since 1970
	kindTimestamptz // ISO text in UTC
	kindTimetz      // ISO text in UTC
	kindInterval
	kindArray
)

// unit is the form of a date, time, timestamp or interval.
type unit uint8

const (
	unitDays unit = iota
	unitMillis
	unitMicros
	unitNanos
	unitISO     // ISO text
	unitConnect // java.util.Date of Connect's own logical types: a number in JSON, ISO text elsewhere
)

// columnType is how the values of one column are written, and its Connect schema.
type columnType struct {
	kind   kind
	unit   unit
	length int         // digits of a timestamptz's fraction, bits of a float
	elem   *columnType // of an array
	schema connectSchema
}

// verbatim tells whether plain and simple style write what Postgres sends.
func (t columnType) verbatim() bool { return t.kind == kindText || t.kind == kindInt }

// base resolves a domain, and a domain over a domain.
func (c Catalog) base(oid uint32, modifier int32) (uint32, int32) {
	for range maxDomainDepth {
		t := c.Types[oid]
		if t.Base == 0 {
			break
		}
		oid, modifier = t.Base, t.BaseModifier
	}
	return oid, modifier
}

// has tells whether a type is known: built in, in the Catalog, or taken as text for want of one.
func (c Catalog) has(oid uint32) bool {
	_, ok := c.Types[oid]
	return ok || c.Types == nil || oid < firstUserOid
}

// maxDomainDepth ends the search in a Catalog that goes in circles.
const maxDomainDepth = 32

// columnType is Debezium's PostgresValueConverter: from type and modifier to form and schema. It is false for the types
// that Debezium leaves out.
func (c Catalog) columnType(oid uint32, modifier int32, modes Types) (columnType, bool) {
	if elem := c.element(oid); elem != 0 {
		elem, modifier := c.base(elem, modifier)
		if c.element(elem) != 0 {
			return columnType{}, false // an array of a domain over an array
		}
		t, ok := c.columnType(elem, modifier, modes)
		return columnType{kind: kindArray, elem: &t, schema: arraySchema(t.schema)}, ok
	}
	if labels := c.Types[oid].Enum; labels != nil {
		return columnType{schema: enumSchema(labels)}, true
	}
	return builtinType(oid, modifier, modes)
}

func (c Catalog) element(oid uint32) uint32 {
	if elem, ok := elementOids[oid]; ok {
		return elem
	}
	return c.Types[oid].Element
}

func builtinType(oid uint32, modifier int32, modes Types) (t columnType, ok bool) {
	switch oid {
	case oidBool:
		t = columnType{kind: kindBool, schema: connectSchema{kind: "boolean"}}
	case oidInt2:
		t = columnType{kind: kindInt, schema: connectSchema{kind: "int16"}}
	case oidInt4:
		t = columnType{kind: kindInt, schema: connectSchema{kind: "int32"}}
	case oidInt8, oidOid:
		t = columnType{kind: kindInt, schema: connectSchema{kind: "int64"}}
	case oidFloat4:
		t = columnType{kind: kindFloat, length: 32, schema: connectSchema{kind: "float"}}
	case oidFloat8:
		t = columnType{kind: kindFloat, length: 64, schema: connectSchema{kind: "double"}}
	case oidNumeric, oidMoney:
		t = decimalType(oid, modifier, modes.Decimal)
	case oidBytea:
		t = binaryType(modes.Binary)
	case oidBit, oidVarbit:
		t = bitsType(oid, modifier)
	case oidPoint:
		t = columnType{kind: kindPoint, schema: pointSchema}
	case oidDate, oidTime, oidTimestamp, oidTimestamptz, oidTimetz, oidInterval:
		t = temporalType(oid, modifier, modes)
	case oidJSON, oidJSONB:
		t = columnType{schema: named("string", "io.debezium.data.Json")}
	case oidUUID:
		t = columnType{schema: named("string", "io.debezium.data.Uuid")}
	case oidXML:
		t = columnType{schema: named("string", "io.debezium.data.Xml")}
	case oidTsvector:
		t = columnType{schema: named("string", "io.debezium.data.Tsvector")}
	default:
		return columnType{schema: connectSchema{kind: "string"}}, oid >= firstUserOid || slices.Contains(textOids, oid)
	}
	return t, true
}

// textOids are the other built-in types that Debezium writes as Postgres prints them: char, name, text, cidr, macaddr8,
// macaddr, inet, bpchar, varchar and the ranges.
var textOids = []uint32{oidChar, oidName, oidText, 650, 774, 829, 869, oidBpchar, oidVarchar, 3904, 3906, 3908, 3910, 3912, 3926}

func decimalType(oid uint32, modifier int32, mode string) columnType {
	const header = 4 // a numeric's modifier is this plus precision<<16 | scale
	precision, scale := (modifier-header)>>16, (modifier-header)&0xffff
	switch {
	case mode == double:
		t := columnType{kind: kindFloat, length: 64, schema: connectSchema{kind: "double"}}
		if oid == oidMoney {
			t.kind = kindMoney
		}
		return t
	case mode == decimalString && oid == oidMoney:
		return columnType{kind: kindMoney, schema: connectSchema{kind: "string"}}
	case mode == decimalString:
		return columnType{schema: connectSchema{kind: "string"}}
	case oid == oidMoney:
		return columnType{kind: kindMoney, schema: decimalSchema(2, 0)}
	case modifier < header:
		return columnType{kind: kindVariableDecimal, schema: variableDecimalSchema}
	}
	return columnType{kind: kindDecimal, schema: decimalSchema(int(scale), int(precision))}
}

func binaryType(mode string) columnType {
	t := columnType{schema: connectSchema{kind: "string"}}
	switch mode {
	case base64Mode:
		t.kind = kindBase64
	case base64URLMode:
		t.kind = kindBase64URL
	case hexMode:
		t.kind = kindHex
	default:
		return columnType{kind: kindBytes, schema: connectSchema{kind: "bytes"}}
	}
	return t
}

func bitsType(oid uint32, modifier int32) columnType {
	if modifier == 1 || modifier < 0 && oid == oidBit {
		return columnType{kind: kindBit, schema: connectSchema{kind: "boolean"}}
	}
	length := int64(modifier)
	if modifier < 0 {
		length = 1<<31 - 1 // what the driver reports for bit varying without a length
	}
	s := named("bytes", "io.debezium.data.Bits")
	s.parameters = [][2]string{{"length", strconv.FormatInt(length, 10)}}
	return columnType{kind: kindBits, schema: s}
}

// temporalType follows time.precision.mode. adaptive is milliseconds up to three digits behind the point.
func temporalType(oid uint32, modifier int32, modes Types) columnType {
	precision := 6
	if modifier >= 0 && oid != oidInterval {
		precision = int(modifier)
	}
	switch oid {
	case oidTimestamptz:
		return columnType{kind: kindTimestamptz, length: precision, schema: named("string", "io.debezium.time.ZonedTimestamp")}
	case oidTimetz:
		return columnType{kind: kindTimetz, schema: named("string", "io.debezium.time.ZonedTime")}
	case oidInterval:
		if modes.Interval == intervalString {
			return columnType{kind: kindInterval, unit: unitISO, schema: named("string", "io.debezium.time.Interval")}
		}
		return columnType{kind: kindInterval, unit: unitMicros, schema: named("int64", "io.debezium.time.MicroDuration")}
	case oidDate:
		return columnType{kind: kindDate, unit: dateUnit(modes.Time), schema: dateSchema(dateUnit(modes.Time))}
	case oidTime:
		u := clockUnit(modes.Time, precision, modes.Time == adaptiveMicros)
		return columnType{kind: kindTime, unit: u, schema: clockSchema(u, "Time")}
	}
	u := clockUnit(modes.Time, precision, false)
	return columnType{kind: kindTimestamp, unit: u, schema: clockSchema(u, "Timestamp")}
}

func dateUnit(mode string) unit {
	switch mode {
	case isostring:
		return unitISO
	case connect:
		return unitConnect
	}
	return unitDays
}

func clockUnit(mode string, precision int, alwaysMicros bool) unit {
	switch {
	case mode == isostring:
		return unitISO
	case mode == connect:
		return unitConnect
	case mode == nanoseconds:
		return unitNanos
	case mode == microseconds || alwaysMicros || precision > 3:
		return unitMicros
	}
	return unitMillis
}
