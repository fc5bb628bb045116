package kafka

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// Compaction has removed events that were published and not saved: what is published again must not end up behind its
// successor, so that the newest event of each key stays the last one.
func TestRealCompactedTopic(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t, kafkatest.Options{FastJVM: true, Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	addrs, topic := cluster.Bootstrap(), "compacted"
	err := cluster.CreateTopic(t.Context(), topic, 2, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "20", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100",
	})
	if err != nil {
		t.Fatal(err)
	}
	const published = 60
	first := begin(t, addrs, Config{})
	offer := func(p *life, from, to int) (suppressed int) {
		for n := from; n < to; n++ {
			m := event(topic, n)
			m.Time = time.Now().UnixMilli() // segments roll by it
			if p.offer(m) {
				suppressed++
			}
			p.flush() // a batch of its own, so that segments can roll between them
		}
		return suppressed
	}
	offer(first, 0, published)
	kept := published
	first.await("something is compacted", func() bool {
		kept = len(read(t, addrs, topic).Records)
		return kept < published*3/4
	})
	if err := first.end(); err != nil {
		t.Fatal(err)
	}

	second := begin(t, addrs, Config{Resume: &Resume{Source: source, From: end(-1), To: end(published), Since: began, ProducerID: first.ProducerID()}})
	suppressed := offer(second, 0, published)
	if _, total := second.Resumed(1); total != 0 {
		t.Errorf("%d events seem lost", total)
	}
	t.Logf("%d of %d records were kept, %d events suppressed", kept, published, suppressed)
	newest, fresh := map[string]int{}, map[string]int{}
	for _, r := range read(t, addrs, topic).Records { // by partition, in the order of the log
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			t.Fatal(err)
		}
		newest[string(r.Key)] = n
		if r.ProducerEpoch == 0 {
			continue
		}
		lane := fmt.Sprint(r.Partition)
		if n < fresh[lane] {
			t.Errorf("partition %s: event %d stands behind %d", lane, n, fresh[lane])
		}
		fresh[lane] = n
	}
	for n := published - 5; n < published; n++ {
		if newest[key(n%5)] != n {
			t.Errorf("key %s ends with %d, want %d", key(n%5), newest[key(n%5)], n)
		}
	}
}
