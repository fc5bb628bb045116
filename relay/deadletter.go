package relay

import (
	"slices"
	"strconv"
	"time"

	"github.com/walrelay/walrelay/router"
)

// Headers of a record in the dead-letter topic, in front of the position.
const (
	headerError = "walrelay.error" // why it could not be published
	// Where it came from, one of the two; absent where the brokers refused it, which is about its topic.
	headerTable  = "walrelay.table"
	headerPrefix = "walrelay.prefix" // of a message
	headerTopic  = "walrelay.topic"  // where it should have gone; absent where that is not known
	headerSize   = "walrelay.size"   // bytes of the value that was left out because it is too large
	// Its explicit partition, where it has one; a record that the brokers refused, the one it was for.
	headerPartition = "walrelay.partition"
	// Something of the event could not be made and is not here; of a message the value is its content.
	headerPartial = "walrelay.partial"
)

// origin is the header that says where an event of the source came from.
func (f *flow) origin(source *route) router.Header {
	if source.lot == lotOfMessages {
		return router.Header{Name: headerPrefix, Value: []byte(f.messages.prefix)}
	}
	return router.Header{Name: headerTable, Value: []byte(source.table)}
}

// deadLetter makes the record for the dead-letter topic: as it would have been, with the reason. An old one gets the time
// of now, or it would not stay.
func (f *flow) deadLetter(topic string, m *router.Message, why string, origin router.Header) router.Message {
	dead := *m
	dead.Topic, dead.Partition, dead.Headers = topic, -1, nil
	for _, h := range m.Headers {
		if h.Name != router.HeaderPosition {
			dead.Headers = append(dead.Headers, h)
		}
	}
	if bounds := f.routes.bounds; dead.Time < bounds.Late {
		original := time.UnixMilli(dead.Time).UTC().AppendFormat(nil, router.TimeFormat)
		dead.Time = bounds.Now
		dead.Headers = append(dead.Headers, router.Header{Name: router.HeaderTime, Value: original})
	}
	dead.Headers = append(dead.Headers, router.Header{Name: headerError, Value: []byte(why)})
	if origin.Name != "" {
		dead.Headers = append(dead.Headers, origin)
	}
	if m.Topic != "" {
		dead.Headers = append(dead.Headers, router.Header{Name: headerTopic, Value: []byte(m.Topic)})
	}
	if m.Partition >= 0 {
		dead.Headers = append(dead.Headers, router.Header{Name: headerPartition, Value: strconv.AppendInt(nil, int64(m.Partition), 10)})
	}
	if m.Partial {
		dead.Headers = append(dead.Headers, router.Header{Name: headerPartial, Value: []byte("true")})
	}
	dead.Headers = append(dead.Headers, router.Header{Name: router.HeaderPosition, Value: m.Identity.Append(nil)})
	return dead
}

// stubPart is the most that a stub keeps of a key or of a header, in bytes.
const stubPart = 4 << 10

// stub is a dead letter without what may be too large for a topic: its value, and a key or headers that are large.
func stub(dead *router.Message) router.Message {
	small := *dead
	small.Value, small.Headers = nil, nil
	if len(small.Key) > stubPart {
		small.Key = nil
	}
	last := len(dead.Headers) - 1 // the position
	room := stubPart
	for _, h := range slices.Backward(dead.Headers[:last]) { // ours stand behind the event's
		if size := len(h.Name) + len(h.Value); size <= room {
			small.Headers = append(small.Headers, h)
			room -= size
		}
	}
	slices.Reverse(small.Headers)
	small.Headers = append(small.Headers,
		router.Header{Name: headerSize, Value: strconv.AppendInt(nil, int64(len(dead.Value)), 10)}, dead.Headers[last])
	return small
}
