package kafka

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/router"
)

// topic is one topic in use. Topics are never forgotten. Guarded by Producer.mu.
type topic struct {
	name       string
	partitions []*partition // empty until metadata has named them
	admitted   bool         // by the session
	looking    bool         // waits for runResume
	looked     int          // partitions below it are looked through
	past       *past        // what it has of Config.Resume; nil: nothing, or not looked up
	grown      int          // new partition count, which waits for the records in flight; 0: none
	halt       *halt
	open       bool   // all of the above allow records, and the session is up
	records    int    // in flight
	sticky     int    // partition of the records without key
	begins     int64  // commit time of its first event, µs since 1970
	idHeader   string // name of its first event's first header, the event's id

	asked     time.Time // when metadata last came
	askAt     time.Time // when to ask for metadata next; zero: nothing to ask
	missing   time.Time // since when the brokers say that it does not exist; zero: they do not
	creation  error     // why it could not be created
	backwards time.Time // since when metadata is older than what is known; zero: it is not
}

// LegalTopicName checks a name by Kafka's rules (Topic.validate).
func LegalTopicName(name string) bool {
	if len(name) == 0 || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// addPartitions makes the partitions up to count.
func (p *Producer) addPartitions(t *topic, count int) {
	for len(t.partitions) < count {
		t.partitions = append(t.partitions, newPartition(t, int32(len(t.partitions)), p.cfg.BatchBytes))
	}
}

// choose picks the partition of a record: the one it names, its key's, or for a record without key the one whose batch
// is open, so that such records share a batch and change the partition with it.
func (t *topic) choose(m *router.Message) (*partition, *PoisonError) {
	count := len(t.partitions)
	switch {
	case m.Partition >= 0 && int(m.Partition) < count:
		return t.partitions[m.Partition], nil
	case m.Partition != -1:
		return nil, &PoisonError{Reason: ReasonPartition, Topic: t.name,
			Detail: fmt.Sprintf("partition %d of %d", m.Partition, count)}
	case m.Key != nil:
		return t.partitions[partitionOf(m.Key, count)], nil
	}
	if pt := t.partitions[t.sticky]; pt.accepts() {
		return pt, nil
	}
	for range count {
		t.sticky = (t.sticky + 1) % count
		if pt := t.partitions[t.sticky]; pt.broker != nil && pt.halt == nil {
			break
		}
	}
	return t.partitions[t.sticky], nil
}

// grow takes note that the topic has more partitions. Its keys move to other partitions, so records wait until those in
// flight are acknowledged.
func (p *Producer) grow(t *topic, count int) {
	t.grown = count
	p.reopen(t)
	p.finishGrowth(t)
}

// finishGrowth switches to the new partition count when nothing is in flight.
func (p *Producer) finishGrowth(t *topic) {
	if t.grown == 0 || t.records > 0 {
		return
	}
	p.log.Warn("topic has more partitions: keys move to other partitions from here on",
		zap.String("topic", t.name), zap.Int("before", len(t.partitions)), zap.Int("now", t.grown))
	p.addPartitions(t, t.grown)
	t.grown, t.admitted = 0, false
	p.stats.PartitionChanges++
	p.ask(t, time.Now()) // for their leaders
	p.admit(t)
}

// reopen computes whether Append may add to the topic.
func (p *Producer) reopen(t *topic) {
	open := len(t.partitions) > 0 && t.admitted && t.grown == 0 && t.halt == nil && p.session.up
	if open != t.open {
		t.open = open
		p.notify()
	}
}

// haltTopic holds a topic until somebody mends it.
func (p *Producer) haltTopic(t *topic, kind Kind, code int16, err error, now time.Time) {
	if t.halt == nil {
		t.halt = &halt{kind: kind, code: code}
		p.log.Error("topic halted", zap.String("topic", t.name), zap.Error(err))
	}
	t.halt.kind, t.halt.code = kind, code
	t.halt.note(now, err)
	p.reopen(t)
	p.notify()
}

// healTopic lets a halted topic go on.
func (p *Producer) healTopic(t *topic) {
	if t.halt == nil {
		return
	}
	p.log.Info("topic goes on", zap.String("topic", t.name), zap.Duration("halted", time.Since(t.halt.since)))
	t.halt = nil
	p.reopen(t)
}
