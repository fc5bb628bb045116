package kafka

import (
	"hash/maphash"
	"maps"
	"strings"
	"time"

	"github.com/walrelay/walrelay/router"
)

// An outsider is a record without a position of ours: somebody else, such as a Debezium, has published it. Where this
// relay has taken over from them (Resume.ByID), such a record counts as the event with the same id and key. That is
// weaker than an identity: ids must never repeat in the table, nor in other tables of the topic with the same key.

// outsider is the hashes of the event's id and of the key. Two of them, since a collision would lose an event.
type outsider struct{ id, key uint64 }

// outsiderMargin is how much earlier than the commit of a topic's first event its outsiders may be, by their own clock.
const outsiderMargin = time.Minute

func keyHash(key []byte) uint64 {
	if key == nil {
		return 0
	}
	return maphash.Bytes(idSeed, key)
}

// outsiderOf is what a record of somebody else would be that has the message's event; false where it has no id.
func outsiderOf(m *router.Message) (outsider, bool) {
	if len(m.Headers) == 0 || m.Headers[0].Name == router.HeaderPosition || m.Headers[0].Value == nil {
		return outsider{}, false
	}
	return outsider{idHash(m.Headers[0].Value), keyHash(m.Key)}, true
}

// introduce notes of the topic's first event what outsiders are looked for by.
func (t *topic) introduce(m *router.Message) {
	if t.idHeader == "" && len(m.Headers) > 0 {
		t.idHeader, t.begins = strings.Clone(m.Headers[0].Name), m.Identity.Time
	}
}

// outsiders collects the outsiders of a topic, partition by partition. The zero value is ready.
type outsiders struct {
	limit         int   // per partition; where there are more, the newest count
	since         int64 // record time, ms since 1970; older ones do not count
	found         map[outsider]struct{}
	recent, older map[outsider]struct{} // of the partition under way
	// open has those in transactions that have not ended, by producer id: of an aborted one they never were.
	open map[int64][]outsider
}

// take adds the record that the batch is at.
func (o *outsiders) take(batch *readBatch, headers []readHeader, idHeader string) {
	if batch.time < o.since {
		return
	}
	for _, h := range headers {
		if string(h.name) != idHeader {
			continue
		}
		if h.value == nil {
			return
		}
		one := outsider{idHash(h.value), keyHash(batch.key)}
		if !batch.transactional {
			o.add(one)
			return
		}
		if o.open == nil {
			o.open = map[int64][]outsider{}
		}
		o.open[batch.producer.id] = append(o.open[batch.producer.id], one)
		return
	}
}

// end takes the marker at the end of somebody's transaction.
func (o *outsiders) end(marker *readBatch) error {
	ended := o.open[marker.producer.id]
	if len(ended) == 0 {
		return nil
	}
	delete(o.open, marker.producer.id)
	return marker.each(func([]readHeader) error {
		const committed = 1 // Kafka documentation, "Control Records": version and type, 2 bytes each
		if len(marker.key) == 4 && marker.key[3] == committed {
			for _, one := range ended {
				o.add(one)
			}
		}
		return nil
	})
}

func (o *outsiders) add(one outsider) {
	if o.recent == nil || len(o.recent) >= o.limit/2 {
		o.older, o.recent = o.recent, map[outsider]struct{}{}
	}
	o.recent[one] = struct{}{}
}

// endPartition leaves the partition under way. A transaction that is open there may still be aborted.
func (o *outsiders) endPartition() {
	if o.found == nil {
		o.found = map[outsider]struct{}{}
	}
	maps.Copy(o.found, o.older)
	maps.Copy(o.found, o.recent)
	o.older, o.recent, o.open = nil, nil, nil
}
