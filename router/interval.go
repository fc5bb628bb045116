package router

import (
	"bytes"
	"strconv"
)

// interval is what Postgres prints under IntervalStyle=postgres, such as 1 year 2 mons 3 days -04:05:06.789.
type interval struct {
	years, months, days, hours, minutes, seconds, micros int64
}

func parseInterval(text []byte) (i interval, ok bool) {
	s := scanner{rest: text}
	for !s.bad && len(s.rest) > 0 {
		sign := int64(1)
		if s.accept('-') {
			sign = -1
		} else {
			s.accept('+')
		}
		if clock := s; bytes.IndexByte(s.rest, ':') >= 0 && bytes.IndexByte(s.rest, ' ') < 0 {
			micros := clock.clock()
			i.hours = sign * (micros / (3600 * microsPerSecond))
			i.minutes = sign * (micros / (60 * microsPerSecond) % 60)
			i.seconds = sign * (micros / microsPerSecond % 60)
			i.micros = sign * (micros % microsPerSecond)
			return i, clock.end()
		}
		v := sign * s.number()
		s.expect(' ')
		unit, rest, _ := bytes.Cut(s.rest, []byte{' '})
		s.rest = rest
		switch string(bytes.TrimSuffix(unit, []byte{'s'})) {
		case "year":
			i.years = v
		case "mon":
			i.months = v
		case "day":
			i.days = v
		default:
			s.bad = true
		}
	}
	return i, s.end()
}

// javaMicros is Debezium's MicroDuration: a month has 30.4375 days, and the sum is made in floating point. The
// conversions keep Go from fusing operations, which would round once less than Java does.
func (i interval) javaMicros() int64 {
	const daysPerMonth = 365.25 / 12.0
	seconds := float64(i.seconds) + float64(float64(i.micros)/microsPerSecond)
	days := float64(float64(i.years*12+i.months)*daysPerMonth) + float64(i.days)
	total := float64((float64(days*24)+float64(i.hours))*60) + float64(i.minutes)
	return int64(float64((float64(total*60) + seconds) * 1e6))
}

// appendISO appends Debezium's form of interval.handling.mode=string, which names every unit.
func (i interval) appendISO(dst []byte) []byte {
	for _, part := range []struct {
		before string
		v      int64
		unit   byte
	}{{"P", i.years, 'Y'}, {"", i.months, 'M'}, {"", i.days, 'D'}, {"T", i.hours, 'H'}, {"", i.minutes, 'M'}} {
		dst = append(dst, part.before...)
		dst = append(strconv.AppendInt(dst, part.v, 10), part.unit)
	}
	if i.seconds == 0 && i.micros < 0 {
		dst = append(dst, '-')
	}
	dst = strconv.AppendInt(dst, i.seconds, 10)
	if i.micros != 0 {
		dst = appendPadded(append(dst, '.'), max(i.micros, -i.micros), 6)
		dst = bytes.TrimRight(dst, "0")
	}
	return append(dst, 'S')
}
