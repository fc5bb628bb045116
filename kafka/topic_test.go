package kafka

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/router"
)

func TestTopicIsCreated(t *testing.T) {
	configure := func(cfg *Config) {
		cfg.Topics = TopicConfig{Create: true, Partitions: 3, ReplicationFactor: 1,
			Config: map[string]string{"retention.ms": "1000000", "cleanup.policy": "compact"}}
	}
	inBubble(t, 2, nil, configure, func(h *harness) {
		h.send("fresh", "a", 0, 10)
		h.flushAndAudit()
		if n := h.partitions("fresh"); n != 3 {
			t.Errorf("%d partitions, want 3", n)
		}
		if diff := cmp.Diff(h.p.cfg.Topics.Config, h.topicConfig("fresh", "retention.ms", "cleanup.policy")); diff != "" {
			t.Error(diff)
		}
		if s := h.p.Stats(); s.TopicsCreated != 1 {
			t.Errorf("%d topics created", s.TopicsCreated)
		}
	})
}

func (h *harness) topicConfig(topic string, names ...string) map[string]string {
	h.t.Helper()
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic, ConfigNames: names}}
	answer := ask(h, request)
	found := map[string]string{}
	for _, c := range answer.Resources[0].Configs {
		found[c.Name] = *c.Value
	}
	return found
}

// ask sends an admin request with franz-go.
func ask[R any](h *harness, request interface {
	kmsg.Request
	RequestWith(context.Context, kmsg.Requestor) (R, error)
}) R {
	h.t.Helper()
	client, err := kgo.NewClient(h.franz()...)
	if err != nil {
		h.t.Fatal(err)
	}
	defer client.Close()
	answer, err := request.RequestWith(h.t.Context(), client)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

// The broker's own defaults where none are configured, and its own creation where we do not create.
func TestTopicDefaults(t *testing.T) {
	for _, create := range []bool{true, false} {
		t.Run(fmt.Sprintf("create %v", create), func(t *testing.T) {
			opts := []kfake.Opt{kfake.DefaultNumPartitions(4), kfake.AllowAutoTopicCreation()}
			inBubble(t, 1, opts, func(cfg *Config) { cfg.Topics.Create = create }, func(h *harness) {
				h.send("fresh", "a", 0, 10)
				h.flushAndAudit()
				if n := h.partitions("fresh"); n != 4 {
					t.Errorf("%d partitions, want the broker's 4", n)
				}
				if s := h.p.Stats(); (s.TopicsCreated == 1) != create {
					t.Errorf("%d topics created", s.TopicsCreated)
				}
			})
		})
	}
}

func TestMissingTopicHaltsAndHeals(t *testing.T) {
	configure := func(cfg *Config) { cfg.Topics.Partitions = 12 }
	inBubble(t, 1, orders(), configure, func(h *harness) {
		began := time.Now()
		if status := h.offer(h.message("absent", "a", 0)); status != Pending {
			t.Fatalf("Append: %v", status)
		}
		h.until("halted", func() bool { trouble, _ := h.p.Trouble(); return trouble.Halted() })
		if waited := time.Since(began); waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("halted after %v, want about 5 s", waited)
		}
		trouble, _ := h.p.Trouble()
		wantRemedy := "kafka-topics.sh --bootstrap-server localhost:9092 --create --topic absent --partitions 12"
		if trouble.Kind != KindTopicMissing || trouble.Topic != "absent" || trouble.Partition != -1 || trouble.Remedy != wantRemedy {
			t.Errorf("trouble %+v", trouble)
		}
		h.send("orders", "a", 0, 10) // others go on
		h.flush()
		asked := h.p.Stats().MetadataRefreshes
		time.Sleep(10 * time.Minute)
		if n := h.p.Stats().MetadataRefreshes - asked; n < 19 || n > 25 {
			t.Errorf("%d metadata requests in ten minutes, want one every 30 s", n)
		}
		if err := h.cluster.CreateTopic("absent", 2, nil); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		h.send("absent", "a", 0, 10)
		h.flushAndAudit()
		if waited := time.Since(began); waited > 31*time.Second {
			t.Errorf("went on after %v", waited)
		}
		if trouble, ok := h.p.Trouble(); ok {
			t.Errorf("trouble %+v", trouble)
		}
	})
}

func TestTopicThatCannotBeCreated(t *testing.T) {
	configure := func(cfg *Config) {
		cfg.Topics = TopicConfig{Create: true, ReplicationFactor: 3}
	}
	inBubble(t, 1, nil, configure, func(h *harness) {
		h.offer(h.message("fresh", "a", 0))
		h.until("halted", func() bool { trouble, _ := h.p.Trouble(); return trouble.Halted() })
		trouble, _ := h.p.Trouble()
		if trouble.Kind != KindTopicMissing || !strings.Contains(trouble.Err.Error(), "INVALID_REPLICATION_FACTOR") {
			t.Errorf("trouble %+v", trouble)
		}
		if _, _, err := h.cluster.AddNode(-1, 9093); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.cluster.AddNode(-1, 9094); err != nil {
			t.Fatal(err)
		}
		h.send("fresh", "a", 0, 10)
		h.flushAndAudit()
	})
}

// The controller that was told is not the controller any more.
func TestControllerMoved(t *testing.T) {
	configure := func(cfg *Config) { cfg.Topics = TopicConfig{Create: true} }
	inBubble(t, 1, nil, configure, func(h *harness) {
		h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.NotController, Count: 3})
		began := time.Now()
		h.send("fresh", "a", 0, 10)
		h.flushAndAudit()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestForbiddenTopic(t *testing.T) {
	inBubble(t, 1, []kfake.Opt{kfake.SeedTopics(1, "orders", "secret")}, nil, func(h *harness) {
		ban := h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "secret", Err: kerr.TopicAuthorizationFailed, Count: -1})
		h.offer(h.message("secret", "a", 0))
		h.until("halted", func() bool { trouble, _ := h.p.Trouble(); return trouble.Halted() })
		trouble, _ := h.p.Trouble()
		if trouble.Kind != KindTopicForbidden || trouble.Topic != "secret" || !strings.HasPrefix(trouble.Remedy, "kafka-acls.sh ") {
			t.Errorf("trouble %+v", trouble)
		}
		h.send("orders", "a", 0, 10)
		h.flush()
		ban.Remove()
		h.send("secret", "a", 0, 10)
		h.flushAndAudit()
	})
}

func TestNoRightToAProducerID(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		ban := h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: -1})
		defer ban.Remove()
		h.stop() // the harness's producer may have its id already
		h.start(nil)
		h.until("session trouble", func() bool { trouble, _ := h.p.Trouble(); return trouble.Kind == KindSession })
		if trouble, _ := h.p.Trouble(); trouble.Remedy == "" {
			t.Errorf("trouble %+v", trouble)
		}
		ban.Remove()
		h.send("orders", "a", 0, 3)
		h.flushAndAudit()
	})
}

func TestProducerIDIsRetried(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.NotController, kerr.ConcurrentTransactions, kerr.RequestTimedOut, kerr.UnknownServerError} {
		t.Run(e.Message, func(t *testing.T) {
			inBubble(t, 1, orders(), nil, func(h *harness) {
				h.stop()
				h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: e, Count: 3})
				h.start(nil)
				h.send("orders", "a", 0, 3)
				h.flushAndAudit()
			})
		})
	}
}

// A topic gets more partitions under load: records wait for those in flight, so that the order per key is kept.
func TestMorePartitionsUnderLoad(t *testing.T) {
	configure := func(cfg *Config) {
		cfg.MetadataMaxAge = 200 * time.Millisecond
		cfg.BatchBytes = 2 << 10
	}
	inBubble(t, 1, []kfake.Opt{kfake.SeedTopics(2, "orders")}, configure, func(h *harness) {
		next := map[string]int{}
		round := func() {
			for i := range 300 {
				k := key(i % 20)
				h.send("orders", k, next[k], next[k]+1)
				next[k]++
			}
		}
		for _, partitions := range []int32{3, 7, 16} {
			round()
			trouble := h.fault(kfake.Fault{Err: kerr.NotEnoughReplicas, Partitions: []int32{0}, Count: 5})
			h.expand("orders", partitions)
			for h.partitions("orders") != int(partitions) {
				round()
				time.Sleep(10 * time.Millisecond)
			}
			trouble.Remove()
		}
		round()
		h.flush()
		if s := h.p.Stats(); s.PartitionChanges != 3 {
			t.Errorf("%d partition changes", s.PartitionChanges)
		}
		h.auditPerKey("orders", next)
	})
}

func (h *harness) expand(topic string, partitions int32) {
	h.t.Helper()
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: partitions}}
	request.TimeoutMillis = 1000
	if answer := ask(h, request); answer.Topics[0].ErrorCode != 0 {
		h.t.Fatal(kerr.ErrorForCode(answer.Topics[0].ErrorCode))
	}
}

// auditPerKey wants 0, 1, 2 ... of every key: in offset order within a partition, and by partition in the order in which
// the key moved, which only goes up here in time (record timestamps are the log's append order across partitions).
func (h *harness) auditPerKey(topic string, want map[string]int) {
	h.t.Helper()
	values := map[string]map[string]bool{}
	byPartition := map[string]map[int32][]int{}
	for _, r := range h.records(topic) {
		k, v := string(r.Key), string(r.Value)
		if values[k] == nil {
			values[k], byPartition[k] = map[string]bool{}, map[int32][]int{}
		}
		if values[k][v] {
			h.t.Errorf("key %s: %s twice", k, v)
		}
		values[k][v] = true
		var n int
		fmt.Sscan(v, &n)
		byPartition[k][r.Partition] = append(byPartition[k][r.Partition], n)
	}
	for k, n := range want {
		if len(values[k]) != n {
			h.t.Errorf("key %s: %d records, want %d", k, len(values[k]), n)
		}
		for partition, list := range byPartition[k] {
			for i := 1; i < len(list); i++ {
				if list[i] < list[i-1] {
					h.t.Errorf("key %s partition %d: %d behind %d", k, partition, list[i], list[i-1])
				}
			}
		}
	}
}

// Appends wait while a topic's partition count changes with records in flight, and only then.
func TestGrowthWaitsForTheRecordsInFlight(t *testing.T) {
	d := newDesk(t, Config{}, 2)
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
	d.tell(t, metadataOf("orders", 5, 0))
	wantStatus(t, d.Producer, record("orders", "k", "v"), Pending)
	d.tell(t, metadataOf("orders", 5, 0))
	drainNotify(d.Producer)
	d.acknowledge(t)
	select {
	case <-d.Notify():
	default:
		t.Error("no event")
	}
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
	if n := len(d.topics["orders"].partitions); n != 5 {
		t.Errorf("%d partitions", n)
	}
	d.tell(t, metadataOf("orders", 5, 0))
	d.acknowledge(t)
	d.tell(t, metadataOf("orders", 9, 0)) // nothing in flight: at once
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
}

// A broker that lags behind tells the past for a moment. Told for long, it is another topic of the same name.
func TestMetadataThatGoesBack(t *testing.T) {
	cases := map[string]func() *metadata.Response{
		"fewer partitions":   func() *metadata.Response { return metadataOf("orders", 2, 5) },
		"older leader epoch": func() *metadata.Response { return metadataOf("orders", 3, 4) },
	}
	for name, older := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, Config{}, 3)
			now := time.Now()
			tell := func(news *metadata.Response, after time.Duration) error {
				return d.learn(news, []string{"orders"}, now.Add(after))
			}
			moved := metadataOf("orders", 3, 5)
			moved.Brokers = append(moved.Brokers, metadata.ResponseBroker{NodeID: 2, Host: "localhost", Port: 9093})
			moved.Topics[0].Partitions[0].LeaderID = 2
			steps := []struct {
				after time.Duration
				news  *metadata.Response
			}{{0, moved}, {1 * time.Second, older()}, {8 * time.Second, older()}, {9 * time.Second, moved}, {12 * time.Second, older()}, {21 * time.Second, older()}}
			for _, step := range steps {
				if err := tell(step.news, step.after); err != nil {
					t.Fatalf("after %v: %v", step.after, err)
				}
				if leader := d.topics["orders"].partitions[0].leader; leader != 2 {
					t.Fatalf("after %v the leader is %d: older news was believed", step.after, leader)
				}
			}
			var over *SessionError
			if err := tell(older(), 23*time.Second); !errors.As(err, &over) || over.Topic != "orders" {
				t.Errorf("%v, want a session error", err)
			}
		})
	}
}

func TestTopicDeletedAndMadeAgain(t *testing.T) {
	inBubble(t, 2, []kfake.Opt{kfake.SeedTopics(1, "orders", "others")}, nil, func(h *harness) {
		h.send("orders", "a", 0, 10)
		h.flush()
		h.move("orders", 0, 1-h.cluster.LeaderFor("orders", 0)) // the leader epoch is 1 now
		h.send("orders", "a", 10, 20)
		h.flush()
		if err := h.cluster.DeleteTopic("orders"); err != nil {
			t.Fatal(err)
		}
		h.send("orders", "a", 20, 30)
		time.Sleep(time.Second)
		if err := h.cluster.CreateTopic("orders", 1, nil); err != nil {
			t.Fatal(err)
		}
		if over := h.waitOver(); over.Topic != "orders" {
			t.Errorf("%v", over)
		}
	})
}

func TestTopicDeleted(t *testing.T) {
	opts := []kfake.Opt{kfake.SeedTopics(1, "orders"), kfake.AllowAutoTopicCreation()}
	inBubble(t, 1, opts, nil, func(h *harness) {
		h.send("orders", "a", 0, 10)
		h.flush()
		if err := h.cluster.DeleteTopic("orders"); err != nil {
			t.Fatal(err)
		}
		h.send("orders", "a", 10, 20)
		if over := h.waitOver(); over.Topic != "orders" || over.Code != codeUnknownTopic {
			t.Errorf("%v", over)
		}
		if h.cluster.LeaderFor("orders", 0) != -1 {
			t.Error("a topic that somebody deleted was created again by asking for it")
		}
	})
}

func TestAnotherClusterEndsTheSession(t *testing.T) {
	d := newDesk(t, Config{}, 1)
	news := metadataOf("orders", 1, 0)
	news.ClusterID = "other"
	var over *SessionError
	if err := d.learn(news, []string{"orders"}, time.Now()); !errors.As(err, &over) || !strings.Contains(over.Reason, "other") {
		t.Errorf("%v", err)
	}
	if d.ClusterID() != "c" {
		t.Errorf("cluster id %q", d.ClusterID())
	}
}

func TestManyTopics(t *testing.T) {
	const topics = 1000
	opts := []kfake.Opt{kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(10)}
	inBubble(t, 1, opts, nil, func(h *harness) {
		for round := range 3 {
			for i := range topics {
				h.send(fmt.Sprintf("topic-%d", i), "a", round, round+1)
			}
		}
		h.flush()
		if s := h.p.Stats(); s.Topics != topics || s.Records != 3*topics {
			t.Errorf("%+v", s)
		}
		for _, topic := range []string{"topic-0", "topic-500", "topic-999"} {
			if diff := cmp.Diff(h.sent[topic], h.logs(topic)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// 10,000 partitions must be cheap.
func TestMemoryOfManyPartitions(t *testing.T) {
	const topics, partitions = 1000, 10
	p := New(Config{Brokers: []string{"localhost:9092"}}, nil)
	p.startLane, p.stopped = func(*lane) {}, false
	p.begin(identity{id: 7}, false)
	before := heap()
	for i := range topics {
		name := fmt.Sprintf("topic-%d", i)
		wantStatus(t, p, record(name, "k", "v"), Pending)
		if err := p.learn(metadataOf(name, partitions, 0), []string{name}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	perPartition := (heap() - before) / (topics * partitions)
	if perPartition > 400 {
		t.Errorf("%d bytes per idle partition", perPartition)
	}
	for i := range topics {
		for j := range int32(partitions) {
			wantStatus(t, p, &router.Message{Topic: fmt.Sprintf("topic-%d", i), Value: []byte("v"), Partition: j}, Appended)
		}
	}
	if n := (heap() - before) / (topics * partitions); n > 2000 {
		t.Errorf("%d bytes per partition with one small record", n)
	}
	runtime.KeepAlive(p)
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A pause is meant for the leader that asked for it: with another leader, or a newer term of the same one, it ends.
func TestPauseEndsWithANewLeader(t *testing.T) {
	for name, change := range map[string]func(*metadata.Response){
		"another leader": func(news *metadata.Response) { news.Topics[0].Partitions[0].LeaderID = 2 },
		"a newer term":   func(*metadata.Response) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, Config{}, 1)
			pt := d.topics["orders"].partitions[0]
			wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
			for range 5 {
				d.lane.take(time.Now())
				answer := answerOf(6)
				if err := d.lane.settle(answer); err != nil || pt.place != paused {
					t.Fatalf("not paused after NOT_LEADER: %v", err)
				}
				pt.pauseUntil = time.Now()
				d.lane.b.resume(time.Now())
			}
			d.lane.take(time.Now())
			if err := d.lane.settle(answerOf(6)); err != nil || pt.place != paused || time.Until(pt.pauseUntil) < maxBackoff/2 {
				t.Fatalf("paused until %v: %v", pt.pauseUntil, err)
			}
			d.tell(t, metadataOf("orders", 1, 0))
			if pt.place != paused {
				t.Fatal("the pause ended without news")
			}
			news := metadataOf("orders", 1, 1)
			news.Brokers = append(news.Brokers, metadata.ResponseBroker{NodeID: 2, Host: "localhost", Port: 9093})
			change(news)
			d.tell(t, news)
			if pt.place != ready || pt.failures != 0 || pt.broker.id != news.Topics[0].Partitions[0].LeaderID {
				t.Errorf("place %d, %d failures, broker %d", pt.place, pt.failures, pt.broker.id)
			}
		})
	}
}

func answerOf(code int16) *produce.Response {
	return &produce.Response{Topics: []produce.ResponseTopic{{Topic: "orders", Partitions: []produce.ResponsePartition{{ErrorCode: code}}}}}
}

// An answer that leaves a partition out tells nothing: the batch is sent again as it is.
func TestAnswerWithoutThePartition(t *testing.T) {
	d := newDesk(t, Config{}, 1)
	pt := d.topics["orders"].partitions[0]
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
	d.lane.take(time.Now())
	if err := d.lane.settle(&produce.Response{}); err != nil {
		t.Fatal(err)
	}
	if pt.place != paused || !pt.head.uncertain || d.Flushed() {
		t.Errorf("place %d, uncertain %v", pt.place, pt.head.uncertain)
	}
}
