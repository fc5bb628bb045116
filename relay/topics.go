package relay

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxTopics bounds the label topic: where rows decide over topics, there may be any number of them.
	maxTopics = 100
	// otherTopics counts what goes to any topic beyond.
	otherTopics = "other"
)

// topics counts what is published, by topic. The lanes of the producer call it for every batch, so that the counters of a
// topic are looked up without making anything.
type topics struct {
	records, bytes *prometheus.CounterVec

	mu    sync.Mutex
	known map[string]*topicCount
}

// topicCount is what was published to one topic.
type topicCount struct {
	name           string
	records, bytes prometheus.Counter
	count          uint64
	size           uint64
	last           time.Time
}

func newTopics(records, bytes *prometheus.CounterVec) *topics {
	return &topics{records: records, bytes: bytes, known: make(map[string]*topicCount)}
}

// published counts a batch.
func (t *topics) published(topic string, records, bytes int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(topic)
	c.records.Add(float64(records))
	c.bytes.Add(float64(bytes))
	c.count += uint64(records)
	c.size += uint64(bytes)
	c.last = now
}

func (t *topics) of(topic string) *topicCount {
	if c := t.known[topic]; c != nil {
		return c
	}
	if len(t.known) >= maxTopics && topic != otherTopics {
		return t.of(otherTopics)
	}
	c := &topicCount{name: topic, records: t.records.WithLabelValues(topic), bytes: t.bytes.WithLabelValues(topic)}
	t.known[topic] = c
	return c
}

// TopicStatus is what was published to one topic since the start.
type TopicStatus struct {
	// Topic is its name; "other" stands for all beyond the first hundred.
	Topic   string    `json:"topic"`
	Records uint64    `json:"records"`
	Bytes   uint64    `json:"bytes"` // on the wire
	Last    time.Time `json:"last"`  // acknowledgement
}

// list is by the number of records, the largest first.
func (t *topics) list() []TopicStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]TopicStatus, 0, len(t.known))
	for _, c := range t.known {
		list = append(list, TopicStatus{c.name, c.count, c.size, c.last})
	}
	slices.SortFunc(list, func(a, b TopicStatus) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Topic, b.Topic))
	})
	return list
}
