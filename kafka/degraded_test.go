package kafka

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// inOrder are the values of a topic in the order of the log; one partition.
func inOrder(t *testing.T, addrs []string, topic string) []int {
	t.Helper()
	var all []int
	for _, r := range read(t, addrs, topic).Records {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// ended is a producer that has published events and is gone. It returns its id.
func ended(t *testing.T, addrs []string, events ...int) int64 {
	t.Helper()
	p := begin(t, addrs, Config{})
	for _, n := range events {
		p.offer(event("orders", n))
		p.flush() // a batch each
	}
	defer p.end()
	return p.ProducerID()
}

// Retention or compaction has removed an event between the kill and the next start. It comes again, and so does everything
// behind it: the last event of a key stays the last.
func TestRemovedRecordsDoNotReorder(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t, kfake.SeedTopics(1, "orders")).ListenAddrs()
	id := ended(t, addrs, 0, 1, 2)
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	remove := kmsg.NewPtrDeleteRecordsRequest()
	remove.TimeoutMillis = 1000
	remove.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "orders", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: 1}}}}
	if answer, err := remove.RequestWith(t.Context(), client); err != nil || answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", answer, err)
	}
	p := begin(t, addrs, Config{Resume: &Resume{Source: source, From: 0, To: end(2), Since: began, ProducerID: id}})
	for n := range 3 {
		if p.offer(event("orders", n)) {
			t.Errorf("event %d is left out", n)
		}
	}
	p.flush()
	if got := inOrder(t, addrs, "orders"); !slices.Equal(got, []int{1, 2, 0, 1, 2}) {
		t.Errorf("in the log: %v", got)
	}
}

// Without the right to read a topic its uncertain events come again, in order, and nothing is lost.
func TestTopicMayNotBeRead(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.SeedTopics(1, "orders"))
	addrs := cluster.ListenAddrs()
	id := ended(t, addrs, 0, 1)
	ban := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	p := begin(t, addrs, Config{Resume: &Resume{Source: source, From: 0, To: end(2), ProducerID: id}})
	for n := range 3 {
		p.offer(event("orders", n))
	}
	p.flush()
	ban.Remove()
	if got := inOrder(t, addrs, "orders"); !slices.Equal(got, []int{0, 1, 0, 1, 2}) {
		t.Errorf("in the log: %v", got)
	}
}

// Where each event must come once, a topic that may not be read waits for the right, and says which.
func TestTopicMustBeRead(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string]kfake.Fault{
		"topic":             {Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: kerr.TopicAuthorizationFailed},
		"dead-letter topic": {Keys: []kmsg.Key{kmsg.Fetch}, Topic: "dead", Err: kerr.TopicAuthorizationFailed},
		"transactional id":  {Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.TransactionalIDAuthorizationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkatest.Fake(t, kfake.SeedTopics(1, "orders", "dead"))
			addrs := cluster.ListenAddrs()
			id := ended(t, addrs, 0, 1)
			missing.Count = -1
			ban := cluster.Fault(missing)
			p := begin(t, addrs, Config{ResumePolicy: ResumeRequire, HaltRetry: 100 * time.Millisecond, Resume: &Resume{
				Source: source, From: 0, To: end(2), ProducerID: id, DeadLetterTopics: []string{"dead"}}})
			if status, err := p.Append(event("orders", 0), 1); status != Pending || err != nil {
				t.Errorf("status %v, %v", status, err)
			}
			p.await("it says what is missing", func() bool {
				trouble, _ := p.Trouble()
				return trouble.Kind == KindSession && strings.Contains(trouble.Remedy, "kafka-acls.sh")
			})
			ban.Remove()
			for n := range 3 {
				if suppressed := p.offer(event("orders", n)); suppressed != (n < 2) {
					t.Errorf("event %d: %v", n, suppressed)
				}
			}
			p.flush()
			if got := inOrder(t, addrs, "orders"); !slices.Equal(got, upTo(3)) {
				t.Errorf("in the log: %v", got)
			}
		})
	}
}

// Without the right to the transactional id nobody is refused: what an earlier producer may still send is waited for, and
// what is uncertain comes again.
func TestNoRightToTheTransactionalID(t *testing.T) {
	inBubble(t, 1, orders(), func(cfg *Config) {
		cfg.TransactionalID = "walrelay/test"
		cfg.Resume = &Resume{Source: source, From: 0, To: end(9), ProducerID: 7}
		cfg.Brokers = []string{"127.0.0.1:1"} // until the right is gone
	}, func(h *harness) {
		h.stop()
		h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1})
		h.start(func(cfg *Config) {
			cfg.TransactionalID = "walrelay/test"
			cfg.Resume = &Resume{Source: source, From: 0, To: end(9), ProducerID: 7}
		})
		start := time.Now()
		h.send("orders", "a", 0, 3)
		h.flushAndAudit()
		if waited := time.Since(start); waited < unfencedDelay || waited > unfencedDelay+time.Minute {
			t.Errorf("waited %v, want %v", waited, unfencedDelay)
		}
		if !h.p.session.plain {
			t.Error("it has the right")
		}
	})
}
