package router

import (
	"errors"
	"strconv"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
)

const (
	// HeaderPosition is the header with the identity of the event (lsn.Identity), always the last one.
	HeaderPosition = "walrelay.lsn"
	// HeaderTime is when the row was committed or created, in TimeFormat, of a record whose own time is that of publishing:
	// with an older one, retention would delete it at once, and brokers would forget whose it is.
	HeaderTime = "walrelay.time"
	// TimeFormat is in UTC.
	TimeFormat = "2006-01-02T15:04:05.000000Z07:00"
)

// Verdict is what becomes of a row.
type Verdict uint8

const (
	// Publish: the message is to be published.
	Publish Verdict = iota
	// Filtered: Config.Filter drops the event. The caller counts it.
	Filtered
)

// Bounds are the record timestamps that Kafka will accept and keep, in ms since 1970. Newest 0 means the year 9999.
type Bounds struct {
	Oldest, Newest int64
	// A commit time before Late is replaced by Now, and goes into HeaderTime.
	Late, Now int64
}

const endOfYear9999 = 253402300799999

func (b Bounds) include(millis int64) bool {
	newest := b.Newest
	if newest == 0 {
		newest = endOfYear9999
	}
	return max(0, b.Oldest) <= millis && millis <= newest
}

// Route is a Config bound to one shape of a table. It belongs to one goroutine.
type Route struct {
	// Bounds may be set between two calls. A timestamp column outside of them is replaced by the commit time. Within them
	// it is the application's, however old.
	Bounds Bounds

	columns   int // that the relation has
	routeBy   writer
	topics    *topicRouter
	types     wordSet
	eventType *writer // nil where no filter needs it
	dropMatch bool
	key       writer
	value     valueWriter
	headers   headerWriter
	partition *writer
	time      *timeReader
}

// Route makes the record of a row of the relation that the Route was bound to. The message is valid until the next call
// with the same message, and not longer than the row's frame. It allocates nothing on the common path.
//
// A *PoisonError is a property of this row; m then holds what could be made before. Any other error is about the stream.
func (r *Route) Route(row *decoder.Row, id lsn.Identity, m *Message) (Verdict, error) {
	m.Reset()
	m.Identity = id
	m.Time = floorDiv(id.Time, 1000)
	if len(row.Columns) != r.columns {
		return Publish, errOtherShape
	}
	routed, topic, unroutable := r.topic(row)
	if unroutable == nil {
		if r.filtered(row, topic.listed) {
			return Filtered, nil
		}
		m.Topic = topic.topic
	}
	if err := r.fill(row, id, routed, m); err != nil {
		m.Partial = true
		return Publish, err
	}
	return Publish, unroutable
}

var errOtherShape = errors.New("row has another number of columns than the relation that its route was bound to")

func (r *Route) topic(row *decoder.Row) (routed []byte, topic topicEntry, err error) {
	routed, null, err := r.routeBy.data(row)
	if err == nil && null {
		err = poison("column %s is NULL, so the event has no topic", r.routeBy.name)
	}
	if err != nil {
		return nil, topicEntry{}, err
	}
	topic, err = r.topics.route(routed)
	return routed, topic, inColumn(r.routeBy.name, err)
}

// fill makes all of the record but its topic.
func (r *Route) fill(row *decoder.Row, id lsn.Identity, routed []byte, m *Message) (err error) {
	if m.Key, err = r.key.write(row, m); err != nil {
		return err
	}
	if err = r.setTime(row, m); err != nil {
		return err
	}
	if err = r.headers.write(row, id, m); err != nil {
		return err
	}
	if m.Value, err = r.value.write(row, routed, m); err != nil {
		return err
	}
	return r.setPartition(row, m)
}

func (r *Route) filtered(row *decoder.Row, listed bool) bool {
	if r.eventType != nil {
		text, _, err := r.eventType.data(row)
		listed = listed && err == nil && r.types.has(text)
	}
	return listed == r.dropMatch
}

func (r *Route) setPartition(row *decoder.Row, m *Message) error {
	if r.partition == nil {
		return nil
	}
	text, null, err := r.partition.data(row)
	if err != nil || null {
		return err
	}
	partition, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || partition < 0 {
		return poison("column %s: partition %s is not a number from 0", r.partition.name, clip(text))
	}
	m.Partition = int32(partition)
	return nil
}

// setTime lets the timestamp column replace the commit time, within the bounds, and otherwise the present a commit time
// that is long ago.
func (r *Route) setTime(row *decoder.Row, m *Message) error {
	if r.time != nil {
		text, null, err := r.time.data(row)
		if err != nil {
			return err
		}
		millis, ok := int64(0), false
		if !null {
			if millis, ok = r.time.millis(text); !ok {
				return poison("column %s: %s is not a time", r.time.name, clip(text))
			}
		}
		if ok && r.Bounds.include(millis) {
			m.Time = millis
			return nil
		}
		m.TimeReplaced = ok
	}
	if m.Late = m.Time < r.Bounds.Late; m.Late {
		m.Time = r.Bounds.Now
	}
	return nil
}

// timeReader reads the timestamp column.
type timeReader struct {
	writer
	kind kind // kindTimestamp, kindTimestamptz, kindDate or kindInt
}

// millis is the value in ms since 1970, cut as Java's division does.
func (t *timeReader) millis(text []byte) (int64, bool) {
	switch t.kind {
	case kindInt:
		v, err := strconv.ParseInt(string(text), 10, 64)
		return v, err == nil
	case kindDate:
		days, ok := parseDate(text)
		return days * (microsPerDay / 1000), ok
	}
	micros, ok := parseTimestamp(text)
	return micros / 1000, ok
}
