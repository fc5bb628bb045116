package kafka

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// named gives a producer a transactional id.
func named(cfg *Config) { cfg.TransactionalID = "walrelay/test" }

// fences are the attempts to fence.
func (h *harness) fences(f kfake.Fault) *kfake.FaultHandle {
	f.Keys, f.Count = []kmsg.Key{kmsg.AddPartitionsToTxn}, -1
	return h.fault(f)
}

// Once a day the transactional id is renewed, by one marker of the same epoch; sequences go on.
func TestStandingIsRenewed(t *testing.T) {
	inBubble(t, 1, []kfake.Opt{kfake.SeedTopics(3, "orders")}, named, func(h *harness) {
		fences := h.fences(kfake.Fault{Observe: true})
		time.Sleep(2 * renewEvery) // there is no topic to do it with
		if n := fences.Hits(); n != 0 {
			t.Errorf("%d fences without a topic", n)
		}
		h.send("orders", "a", 0, 5)
		h.flush()
		time.Sleep(3*renewEvery + time.Minute)
		if n := fences.Hits(); n != 3 {
			t.Errorf("%d fences in three days", n)
		}
		h.send("orders", "a", 5, 10)
		h.flush()
		if epoch := h.p.session.epoch; epoch != 0 {
			t.Errorf("epoch %d", epoch)
		}
	})
}

// A coordinator that has forgotten the id, or given it to another producer, ends the session.
func TestStandingIsLost(t *testing.T) {
	for code, fenced := range map[*kerr.Error]bool{kerr.InvalidProducerIDMapping: false, kerr.ProducerFenced: true} {
		t.Run(code.Message, func(t *testing.T) {
			inBubble(t, 1, orders(), named, func(h *harness) {
				h.send("orders", "a", 0, 5)
				h.flush()
				h.fences(kfake.Fault{Err: code})
				time.Sleep(2 * renewEvery)
				if over := h.waitOver(); over.Code != code.Code || over.Fenced() != fenced {
					t.Errorf("got %v", over)
				}
			})
		})
	}
}

// stoodStill makes a producer believe that its process did not run for a while.
func stoodStill(p *Producer, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session.beat -= int64(d)
}

// After a time in which the process did not run nothing is sent until the coordinator has confirmed that no other producer
// took over. While it cannot be asked, that shows.
func TestDoubtAfterAPause(t *testing.T) {
	inBubble(t, 1, orders(), named, func(h *harness) {
		h.send("orders", "a", 0, 5)
		h.flush()
		loading := h.fences(kfake.Fault{Err: kerr.CoordinatorLoadInProgress})
		stoodStill(h.p, pauseLimit-beatEvery) // a busy machine
		h.send("orders", "a", 5, 6)
		h.flush()
		stoodStill(h.p, pauseLimit)
		h.send("orders", "a", 6, 9)
		h.until("it says so", func() bool {
			trouble, ok := h.p.Trouble()
			return ok && trouble.Kind == KindSession
		})
		time.Sleep(time.Minute)
		if h.p.Flushed() {
			t.Error("records were sent in doubt")
		}
		loading.Remove()
		h.flush()
		if trouble, ok := h.p.Trouble(); ok {
			t.Errorf("trouble %+v", trouble)
		}
	})
}

// A producer that stood still for longer than the brokers remember the epoch of its successor: they would take its batch.
// It finds out before it sends.
func TestRealEpochIsForgotten(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{FastJVM: true, Properties: map[string]string{
		"producer.id.expiration.ms":                "3000",
		"producer.id.expiration.check.interval.ms": "500",
	}})
	addrs := cluster.Bootstrap()
	for _, c := range []struct {
		topic   string
		pause   time.Duration
		refused bool
	}{
		{"taken", 0, false}, // so that the other case shows something
		{"refused", 2 * pauseLimit, true},
	} {
		t.Run(c.topic, func(t *testing.T) {
			if err := cluster.CreateTopic(t.Context(), c.topic, 1, 1, nil); err != nil {
				t.Fatal(err)
			}
			first := begin(t, addrs, Config{})
			first.offer(event(c.topic, 0))
			first.flush()
			second := begin(t, addrs, Config{Resume: &Resume{Source: source, To: end(5), ProducerID: first.ProducerID()}})
			second.offer(event(c.topic, 0))
			second.flush()
			second.end()
			awaitForgotten(t, addrs, c.topic)

			stoodStill(first.Producer, c.pause)
			first.offer(event(c.topic, 1))
			if c.refused {
				var over *SessionError
				if err := <-first.over; !errors.As(err, &over) || !over.Fenced() {
					t.Errorf("got %v", err)
				}
				first.over <- nil
			} else {
				first.flush()
			}
			want := []int{0, 1}
			if c.refused {
				want = want[:1]
			}
			if got := values(t, read(t, addrs, c.topic)); !slices.Equal(got, want) {
				t.Errorf("in the topic: %v", got)
			}
		})
	}
}

// awaitForgotten waits until the leader of partition 0 knows no producer any more.
func awaitForgotten(t *testing.T, addrs []string, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrDescribeProducersRequest()
	request.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		answer, err := request.RequestWith(t.Context(), client)
		if err != nil || answer.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v, %v", answer, err)
		}
		if len(answer.Topics[0].Partitions[0].ActiveProducers) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the leader remembers for ever")
		}
	}
}

// A coordinator forgets a transactional id that it has not written of; renewing keeps it.
func TestRealStandingIsKept(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{FastJVM: true, Properties: map[string]string{
		"transactional.id.expiration.ms":                             "4000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "500",
	}})
	addrs := cluster.Bootstrap()
	for _, c := range []struct {
		name  string
		every time.Duration
		kept  bool
	}{
		{"forgotten", time.Hour, false}, // so that the other case shows something
		{"kept", time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Brokers: addrs, TransactionalID: "walrelay/" + c.name}
			first := beginWith(t, cfg, func(p *Producer) { p.renewEvery = c.every })
			first.offer(event(c.name, 0))
			first.flush()
			id := first.ProducerID()
			for stop := time.Now().Add(12 * time.Second); time.Now().Before(stop); time.Sleep(time.Second) {
				first.offer(event(c.name, 1)) // batches do not count
				first.flush()
			}
			second := beginWith(t, cfg, func(*Producer) {})
			second.await("a session", func() bool { return second.ProducerID() >= 0 })
			if kept := second.ProducerID() == id; kept != c.kept {
				t.Errorf("the next producer has id %d, the first one %d", second.ProducerID(), id)
			}
		})
	}
}
