package kafka

import (
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

func TestRealEachEventOnce(t *testing.T) {
	testEachEventOnce(t, kafkatest.Shared(t, 1).Bootstrap(), compress.Zstd)
}

// What a killed producer still has under way, because the followers are slow, lies above the high watermark: no look
// at the log shows it. The marker behind it does.
func TestRealUnseenBatchIsFound(t *testing.T) {
	cluster := kafkatest.Shared(t, 3)
	addrs, topic := cluster.Bootstrap(), "unseen"
	if err := cluster.CreateTopic(t.Context(), topic, 1, 3, map[string]string{"min.insync.replicas": "2"}); err != nil {
		t.Fatal(err)
	}
	first := begin(t, addrs, Config{})
	first.offer(event(topic, 0))
	first.flush()
	id := first.ProducerID()

	leader, err := cluster.Leader(t.Context(), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, follower := range []int32{1, 2, 3} {
		if follower != leader {
			if err := cluster.Pause(follower); err != nil {
				t.Fatal(err)
			}
			defer cluster.Continue(follower) //nolint:errcheck // continued below
		}
	}
	first.offer(event(topic, 1))
	first.await("the batch is under way", func() bool { return first.Stats().Requests > 1 })
	time.Sleep(300 * time.Millisecond) // the leader appends it; nothing can be seen of that from outside
	first.end()

	resume := &Resume{Source: source, From: end(0), To: end(5), Since: began, ProducerID: id}
	second := begin(t, addrs, Config{Resume: resume})
	for _, follower := range []int32{1, 2, 3} {
		if err := cluster.Continue(follower); err != nil {
			t.Fatal(err)
		}
	}
	suppressed := second.offer(event(topic, 1))
	second.offer(event(topic, 2))
	second.flush()
	if got := values(t, read(t, addrs, topic)); !slices.Equal(got, upTo(3)) {
		t.Errorf("in the topic: %v (suppressed: %v)", got, suppressed)
	}
	if !suppressed {
		t.Log("the batch was not appended before the kill; nothing was shown")
	}
}

// A relay that was frozen while another one took over writes nothing when it wakes up.
func TestRealFrozenProducerIsRefused(t *testing.T) {
	addrs := kafkatest.Shared(t, 1).Bootstrap()
	testFrozen(t, addrs, "frozen")
}
