package router

import (
	"bytes"
	"strconv"
)

// What Postgres prints for dates and times under DateStyle=ISO, as numbers since 1970. Years run from -4713 to 294276,
// and BC counts from 1.

const (
	microsPerSecond = 1_000_000
	microsPerDay    = 24 * 60 * 60 * microsPerSecond
)

// Debezium's numbers for infinity: pgjdbc's constants in ms, taken as µs.
const (
	infinityMicros      = 9223372036825200000
	minusInfinityMicros = -9223372036832400000
	// The days of -5877611-06-21 and -5877611-06-22, which Debezium takes for infinity.
	infinityDays      = -2147472692
	minusInfinityDays = -2147472691
)

// daysFromCivil is the number of days from 1970-01-01 to a date of the proleptic Gregorian calendar.
func daysFromCivil(year, month, day int64) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	dayOfYear := (153*((month+9)%12)+2)/5 + day - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// civilFromDays is the inverse of daysFromCivil.
func civilFromDays(days int64) (year, month, day int64) {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153 // March is 0
	day = dayOfYear - (153*shifted+2)/5 + 1
	month = (shifted+2)%12 + 1
	year = yearOfEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// scanner takes numbers and separators off a text. After the first mismatch bad is set and all further results are 0.
type scanner struct {
	rest []byte
	bad  bool
}

// number takes decimal digits, at most 18.
func (s *scanner) number() int64 {
	n := 0
	var v int64
	for n < len(s.rest) && n < 18 && isDigit(s.rest[n]) {
		v = v*10 + int64(s.rest[n]-'0')
		n++
	}
	s.bad = s.bad || n == 0
	s.rest = s.rest[n:]
	return v
}

// accept takes c if it comes next.
func (s *scanner) accept(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) expect(c byte) {
	if !s.accept(c) {
		s.bad = true
	}
}

// date takes year-month-day. BC stands at the end of the whole text.
func (s *scanner) date() int64 {
	if text, isBC := bytes.CutSuffix(s.rest, []byte(" BC")); isBC {
		s.rest = text
		return s.dateOf(true)
	}
	return s.dateOf(false)
}

func (s *scanner) dateOf(bc bool) int64 {
	year := s.number()
	s.expect('-')
	month := s.number()
	s.expect('-')
	day := s.number()
	if bc {
		year = 1 - year
	}
	if s.bad || month < 1 || month > 12 || day < 1 || day > 31 || year < -100_000 || year > 1_000_000 {
		s.bad = true
		return 0
	}
	return daysFromCivil(year, month, day)
}

// clock takes hour:minute:second[.fraction] in µs. The hour may be 24.
func (s *scanner) clock() int64 {
	hour := s.number()
	s.expect(':')
	minute := s.number()
	s.expect(':')
	second := s.number()
	var micros int64
	if s.accept('.') {
		micros = s.fraction()
	}
	if s.bad || hour > 1<<32 || minute > 59 || second > 60 {
		s.bad = true
		return 0
	}
	return ((hour*60+minute)*60+second)*microsPerSecond + micros
}

// fraction takes digits as millionths.
func (s *scanner) fraction() int64 {
	before := len(s.rest)
	v := s.number()
	for n := before - len(s.rest); n < 6; n++ {
		v *= 10
	}
	if before-len(s.rest) > 6 {
		s.bad = true
	}
	return v
}

// offset takes ±hour[:minute[:second]] in µs, or nothing, which is 0.
func (s *scanner) offset() int64 {
	sign := int64(1)
	if s.accept('-') {
		sign = -1
	} else if !s.accept('+') {
		return 0
	}
	seconds := s.number() * 3600
	for _, unit := range []int64{60, 1} {
		if s.accept(':') {
			seconds += s.number() * unit
		}
	}
	if seconds > 24*3600 {
		s.bad = true
		return 0
	}
	return sign * seconds * microsPerSecond
}

func (s *scanner) end() bool { return !s.bad && len(s.rest) == 0 }

// parseDate reads a date as days since 1970.
func parseDate(text []byte) (days int64, ok bool) {
	switch string(text) {
	case "infinity":
		return infinityDays, true
	case "-infinity":
		return minusInfinityDays, true
	}
	s := scanner{rest: text}
	days = s.date()
	return days, s.end()
}

// parseTimestamp reads a timestamp or timestamptz as µs since 1970.
func parseTimestamp(text []byte) (micros int64, ok bool) {
	switch string(text) {
	case "infinity":
		return infinityMicros, true
	case "-infinity":
		return minusInfinityMicros, true
	}
	s := scanner{rest: text}
	days := s.date()
	s.expect(' ')
	micros = days*microsPerDay + s.clock()
	micros -= s.offset()
	return micros, s.end()
}

// parseTime reads a time or timetz as µs since midnight, in UTC.
func parseTime(text []byte) (micros int64, ok bool) {
	s := scanner{rest: text}
	micros = s.clock()
	micros -= s.offset()
	return micros, s.end()
}

// appendISODate appends a date as java.time prints it: four digits of the year at least, a sign before more.
func appendISODate(dst []byte, days int64) []byte {
	year, month, day := civilFromDays(days)
	if year > 9999 {
		dst = append(dst, '+')
	} else if year < 0 {
		dst = append(dst, '-')
		year = -year
	}
	dst = appendPadded(dst, year, 4)
	dst = appendPadded(append(dst, '-'), month, 2)
	return appendPadded(append(dst, '-'), day, 2)
}

// appendISOClock appends the time of day. Digits behind the point: exactly precision, or, below 1, as many as needed.
func appendISOClock(dst []byte, micros int64, precision int) []byte {
	seconds := micros / microsPerSecond
	dst = appendPadded(dst, seconds/3600, 2)
	dst = appendPadded(append(dst, ':'), seconds/60%60, 2)
	dst = appendPadded(append(dst, ':'), seconds%60, 2)
	fraction := micros % microsPerSecond
	if precision < 1 {
		if fraction == 0 {
			return dst
		}
		dst = appendPadded(append(dst, '.'), fraction, 6)
		return bytes.TrimRight(dst, "0")
	}
	dst = appendPadded(append(dst, '.'), fraction, 6)
	return dst[:len(dst)-6+min(precision, 6)]
}

// appendISOTimestamp appends date, T, time of day and Z.
func appendISOTimestamp(dst []byte, micros int64, precision int) []byte {
	days := floorDiv(micros, microsPerDay)
	dst = append(appendISODate(dst, days), 'T')
	return append(appendISOClock(dst, micros-days*microsPerDay, precision), 'Z')
}

func appendPadded(dst []byte, v int64, width int) []byte {
	var buffer [20]byte
	digits := strconv.AppendInt(buffer[:0], v, 10)
	for n := len(digits); n < width; n++ {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}
