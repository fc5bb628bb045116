package router

import "strconv"

// appendTemporal appends a date, time, timestamp or interval in the form that the column's unit says.
func (t *columnType) appendTemporal(dst, text []byte, s style, embedded bool) ([]byte, error) {
	number, iso, ok := t.temporal(text)
	switch {
	case !ok:
		return dst, poison("%s is not a value of its column's date or time type", clip(text))
	case t.unit == unitConnect && s == styleJSON, !iso && t.unit != unitConnect:
		return strconv.AppendInt(dst, number, 10), nil
	case t.unit == unitConnect:
		return t.appendJavaDate(dst, number), nil
	}
	quoted := s.quotes(embedded)
	if quoted {
		dst = append(dst, '"')
	}
	dst = t.appendISO(dst, text)
	if quoted {
		dst = append(dst, '"')
	}
	return dst, nil
}

// temporal reads the value as a number in the column's unit, or tells that it is written as ISO text.
func (t *columnType) temporal(text []byte) (number int64, iso, ok bool) {
	switch t.kind {
	case kindDate:
		number, ok = parseDate(text)
		return number, t.unit == unitISO, ok
	case kindInterval:
		i, ok := parseInterval(text)
		return i.javaMicros(), t.unit == unitISO, ok
	case kindTimestamptz:
		_, ok = parseTimestamp(text)
		return 0, true, ok
	case kindTime, kindTimetz:
		number, ok = parseTime(text)
	default:
		number, ok = parseTimestamp(text)
	}
	switch t.unit {
	case unitMillis, unitConnect:
		number = floorDiv(number, 1000)
	case unitNanos:
		number *= 1000
	}
	return number, t.unit == unitISO || t.kind == kindTimetz, ok
}

// appendISO appends ISO text of a value that temporal has accepted.
func (t *columnType) appendISO(dst, text []byte) []byte {
	switch t.kind {
	case kindDate:
		days, _ := parseDate(text)
		return append(appendISODate(dst, days), 'Z')
	case kindInterval:
		i, _ := parseInterval(text)
		return i.appendISO(dst)
	case kindTime, kindTimetz:
		micros, _ := parseTime(text)
		return append(appendISOClock(dst, micros-floorDiv(micros, microsPerDay)*microsPerDay, 0), 'Z')
	}
	if len(text) > 0 && text[len(text)-1] == 'y' && t.kind == kindTimestamptz {
		return append(dst, text...) // infinity and -infinity
	}
	micros, _ := parseTimestamp(text)
	return appendISOTimestamp(dst, micros, t.length)
}

// appendJavaDate appends a java.util.Date as SimpleHeaderConverter writes it. Its choice of format is by value: before
// 1970-01-02 only the time of day, and at midnight only the date.
func (t *columnType) appendJavaDate(dst []byte, number int64) []byte {
	const millisPerDay = microsPerDay / 1000
	millis := number
	if t.kind == kindDate {
		millis = number * millisPerDay
	}
	days := floorDiv(millis, millisPerDay)
	switch {
	case millis < millisPerDay:
		return append(appendISOClock(dst, (millis-days*millisPerDay)*1000, 3), 'Z')
	case millis%millisPerDay == 0:
		return appendISODate(dst, days)
	}
	return appendISOTimestamp(dst, millis*1000, 3)
}
