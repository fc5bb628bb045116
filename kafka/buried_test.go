package kafka

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/router"
)

// dead is the n-th event as a dead letter. All of the key that n stands for go to one partition.
func dead(n int, id bool) *router.Message {
	m := event("dead", n)
	position := m.Headers[1]
	m.Headers = append(m.Headers[:1:1], router.Header{Name: "walrelay.error", Value: []byte("too large")}, position)
	if !id {
		m.Headers = m.Headers[1:]
	}
	return m
}

// An event that went to the dead-letter topic counts as found, also where it could go to its own topic now: it would stand
// behind its successors, and all of those would come again.
func TestDeadLettersAreFound(t *testing.T) {
	for name, id := range map[string]bool{"with its id": true, "that could not be read": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := kafkatest.Fake(t).ListenAddrs()
			first := begin(t, addrs, Config{})
			first.offer(event("orders", 0))
			first.offer(dead(5, id))
			first.offer(event("orders", 10)) // the same key
			first.flush()
			first.end()

			second := begin(t, addrs, Config{Resume: &Resume{
				Source: source, To: end(15), Since: began, ProducerID: first.ProducerID(), DeadLetterTopics: []string{"dead", "not there"},
			}})
			for _, n := range []int{0, 5, 10} {
				if !second.offer(event("orders", n)) {
					t.Errorf("event %d is published again", n)
				}
			}
			second.offer(event("orders", 15))
			second.flush()
			if got := values(t, read(t, addrs, "orders")); !slices.Equal(got, []int{0, 10, 15}) {
				t.Errorf("in the topic: %v", got)
			}
		})
	}
}

// Only the event itself counts.
func TestOnlyTheSameDeadLetterCounts(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t).ListenAddrs()
	first := begin(t, addrs, Config{})
	first.offer(dead(5, true))
	first.offer(dead(90, true)) // not uncertain
	first.flush()
	first.end()
	second := begin(t, addrs, Config{Resume: &Resume{
		Source: source, To: end(15), ProducerID: first.ProducerID(), DeadLetterTopics: []string{"dead"},
	}})
	other := event("orders", 5)
	other.Headers[0].Value = []byte("another id")
	if second.offer(other) || second.offer(event("orders", 90)) {
		t.Error("another event is left out")
	}
}

// Without the right to read the dead-letter topic, what stands behind a dead letter may come twice; nothing is lost.
func TestDeadLettersAreForbidden(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t)
	addrs := cluster.ListenAddrs()
	first := begin(t, addrs, Config{})
	first.offer(dead(5, true))
	first.offer(event("orders", 10))
	first.flush()
	first.end()
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "dead", Err: kerr.TopicAuthorizationFailed, Count: -1})
	second := begin(t, addrs, Config{Resume: &Resume{
		Source: source, To: end(15), ProducerID: first.ProducerID(), DeadLetterTopics: []string{"dead"},
	}})
	if second.offer(event("orders", 5)) || second.offer(event("orders", 10)) {
		t.Error("left out, although nobody could look")
	}
}
