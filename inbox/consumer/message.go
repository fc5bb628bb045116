package consumer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/segmentio/kafka-go"
)

// Message is a message with the id of its event.
type Message struct {
	kafka.Message
	// ID is the event's id.
	ID string
}

// Header is the value of the first header of that name; empty where there is none.
func (m *Message) Header(name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func (r *runner) message(m kafka.Message) Message {
	message := Message{Message: m}
	if message.ID = message.Header(r.cfg.IDHeader); message.ID == "" {
		message.ID = fmt.Sprintf("%s/%d/%d", m.Topic, m.Partition, m.Offset)
	}
	return message
}

// isMarker recognises a transaction marker, which kafka-go hands out as a message: a key of version 0 and type 0 (abort) or 1
// (commit), a value of version 0 and a coordinator's epoch, no headers. A relay that was killed leaves one behind.
func isMarker(m *kafka.Message) bool {
	if len(m.Headers) > 0 || len(m.Key) != 4 || len(m.Value) != 6 {
		return false
	}
	return binary.BigEndian.Uint16(m.Key) == 0 && binary.BigEndian.Uint16(m.Key[2:]) <= 1 && bytes.HasPrefix(m.Value, []byte{0, 0})
}

// lanes divides messages by key and keeps their order in each.
func lanes(messages []Message, n int) [][]Message {
	if n == 1 || len(messages) == 1 {
		return [][]Message{messages}
	}
	all := make([][]Message, n)
	for _, m := range messages {
		h := fnv.New32a()
		_, _ = h.Write(m.Key) // never fails
		i := h.Sum32() % uint32(n)
		all[i] = append(all[i], m)
	}
	return all
}
