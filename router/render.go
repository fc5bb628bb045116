package router

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// style is one of Connect's converters.
type style uint8

const (
	stylePlain  style = iota // StringConverter: Java's text, but bytea as raw bytes
	styleSimple              // SimpleHeaderConverter: Java's text, bytea in base64, arrays and structs close to JSON
	styleJSON                // JsonConverter
)

// quotes tells whether a string is put in quotes. Embedded is inside an array or struct.
func (s style) quotes(embedded bool) bool { return s == styleJSON || s == styleSimple && embedded }

// append appends the value that Postgres sent as text.
func (t *columnType) append(dst, text []byte, s style, embedded bool) ([]byte, error) {
	switch t.kind {
	case kindInt:
		return append(dst, text...), nil
	case kindBool:
		return appendBool(dst, len(text) == 1 && text[0] == 't'), nil
	case kindBit:
		return appendBool(dst, len(text) == 1 && text[0] == '1'), nil
	case kindFloat:
		return appendJavaFloat(dst, text, t.length, s == styleJSON)
	case kindDecimal, kindVariableDecimal, kindMoney:
		return t.appendDecimal(dst, text, s, embedded)
	case kindBytes, kindBase64, kindBase64URL, kindHex:
		return t.appendBytes(dst, text, s, embedded)
	case kindBits:
		return appendBase64(dst, littleEndianBits(text), s.quotes(embedded)), nil
	case kindPoint:
		return appendPoint(dst, text, s, embedded)
	case kindDate, kindTime, kindTimestamp, kindTimestamptz, kindTimetz, kindInterval:
		return t.appendTemporal(dst, text, s, embedded)
	case kindArray:
		return t.appendArray(dst, text, s)
	}
	return appendString(dst, text, s, embedded), nil
}

func appendString(dst, text []byte, s style, embedded bool) []byte {
	switch {
	case s == styleJSON:
		return appendJSONString(dst, text)
	case !s.quotes(embedded):
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text { // Connect escapes nothing else here
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func appendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }

func appendBase64(dst, data []byte, quoted bool) []byte {
	if !quoted {
		return base64.StdEncoding.AppendEncode(dst, data)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), data)
	return append(dst, '"')
}

func (t *columnType) appendDecimal(dst, text []byte, s style, embedded bool) ([]byte, error) {
	var digits, amount [64]byte
	if t.kind == kindMoney {
		text = appendMoneyDigits(amount[:0], text)
		if t.schema.kind == "double" {
			return appendJavaFloat(dst, text, 64, s == styleJSON)
		}
	}
	d, ok := parseDecimal(text, digits[:0])
	switch {
	case !ok, t.schema.kind == "string": // NaN and the infinities have no other form
		return appendString(dst, text, s, embedded), nil
	case t.kind == kindVariableDecimal && s != stylePlain:
		d = d.stripped()
		dst = strconv.AppendInt(append(dst, `{"scale":`...), int64(d.scale), 10)
		dst = d.appendBase64(append(dst, `,"value":"`...))
		return append(dst, `"}`...), nil
	case s == styleJSON:
		dst = d.appendBase64(append(dst, '"'))
		return append(dst, '"'), nil
	case t.kind == kindVariableDecimal:
		return append(dst, text...), nil
	}
	return d.appendJava(dst, text), nil
}

// decodeBytea decodes the hexadecimal output of bytea, behind dst.
func decodeBytea(dst, text []byte) ([]byte, error) {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
		return dst, poison("bytea value does not begin with \\x: the session must have bytea_output=hex")
	}
	dst, err := hex.AppendDecode(dst, text[2:])
	if err != nil {
		return dst, poison("bytea value: %v", err)
	}
	return dst, nil
}

func (t *columnType) appendBytes(dst, text []byte, s style, embedded bool) ([]byte, error) {
	start := len(dst)
	dst, err := decodeBytea(dst, text)
	if err != nil || t.kind == kindBytes && s == stylePlain {
		return dst, err
	}
	data, mark := dst[start:], len(dst)
	quoted := s.quotes(embedded)
	if quoted {
		dst = append(dst, '"')
	}
	switch t.kind {
	case kindHex:
		dst = hex.AppendEncode(dst, data)
	case kindBase64URL:
		dst = base64.URLEncoding.AppendEncode(dst, data)
	default:
		dst = base64.StdEncoding.AppendEncode(dst, data)
	}
	if quoted {
		dst = append(dst, '"')
	}
	n := copy(dst[start:], dst[mark:]) // over the decoded bytes
	return dst[:start+n], nil
}

// littleEndianBits packs a bit string, the last bit into bit 0 of byte 0, and without zero bytes at the end.
func littleEndianBits(text []byte) []byte {
	packed := make([]byte, (len(text)+7)/8)
	used := 0
	for i := range text {
		if text[len(text)-1-i] == '1' {
			packed[i/8] |= 1 << (i % 8)
			used = i/8 + 1
		}
	}
	return packed[:used]
}

// appendPoint appends Debezium's struct of a point: x, y and its well-known binary.
func appendPoint(dst, text []byte, s style, embedded bool) ([]byte, error) {
	if s == stylePlain {
		return append(dst, text...), nil
	}
	x, y, ok := parsePoint(text)
	if !ok {
		return dst, poison("%s is not a point", clip(text))
	}
	wkb := [21]byte{0: 1, 1: 1} // little-endian, type point
	binary.LittleEndian.PutUint64(wkb[5:], math.Float64bits(x))
	binary.LittleEndian.PutUint64(wkb[13:], math.Float64bits(y))
	dst = appendJavaDigits(append(dst, `{"x":`...), x, 64)
	dst = appendJavaDigits(append(dst, `,"y":`...), y, 64)
	dst = appendBase64(append(dst, `,"wkb":`...), wkb[:], true)
	return append(dst, `,"srid":null}`...), nil
}

func parsePoint(text []byte) (x, y float64, ok bool) {
	n := len(text)
	if n < 2 || text[0] != '(' || text[n-1] != ')' {
		return 0, 0, false
	}
	for i, c := range text {
		if c == ',' {
			x, errX := strconv.ParseFloat(string(text[1:i]), 64)
			y, errY := strconv.ParseFloat(string(text[i+1:n-1]), 64)
			finite := !math.IsInf(x, 0) && !math.IsNaN(x) && !math.IsInf(y, 0) && !math.IsNaN(y)
			return x, y, errX == nil && errY == nil && finite
		}
	}
	return 0, 0, false
}
