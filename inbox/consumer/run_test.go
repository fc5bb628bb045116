package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// A handler that fails now and then gets each message again, in order, and offsets are committed behind what was handled.
func TestAtLeastOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.produce("a", "b", "c", "d", "e")
	var log record
	failed := map[string]bool{}
	registry := prometheus.NewRegistry()
	cfg := f.config("g")
	cfg.Metrics = registry
	f.run(cfg, AtLeastOnce(func(_ context.Context, messages []Message) error {
		value := string(messages[0].Value)
		if (value == "b" || value == "d") && !failed[value] {
			failed[value] = true
			log.add("failed " + value)
			if value == "d" {
				panic("d")
			}
			return errors.New("not yet")
		}
		log.add(value)
		return nil
	}), func() {
		log.await(t, "a", "failed b", "b", "c", "failed d", "d", "e")
		f.awaitCommitted("g", 5)
	})
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Metrics are there while Run runs.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.produce("a", "b", "bad")
	registry := prometheus.NewRegistry()
	cfg := f.config("g")
	cfg.Metrics, cfg.Attempts, cfg.DeadLetter = registry, 2, "dead"
	f.run(cfg, AtLeastOnce(func(_ context.Context, messages []Message) error {
		if string(messages[0].Value) == "bad" {
			return errors.New("bad")
		}
		return nil
	}), func() {
		f.awaitCommitted("g", 3)
		want := `# HELP walrelay_consumer_messages_total Messages by what became of them: handled, known (handled before), failed (an attempt), dead_lettered, lost (at most once).
# TYPE walrelay_consumer_messages_total counter
walrelay_consumer_messages_total{group="g",result="dead_lettered",topic="topic"} 1
walrelay_consumer_messages_total{group="g",result="failed",topic="topic"} 2
walrelay_consumer_messages_total{group="g",result="handled",topic="topic"} 2
walrelay_consumer_messages_total{group="g",result="known",topic="topic"} 0
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "walrelay_consumer_messages_total"); err != nil {
			t.Error(err)
		}
	})
}

// What cannot be handled goes to the dead-letter topic as it was, and what comes behind it is handled.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.produce("a", "bad", "c")
	var log record
	cfg := f.config("g")
	cfg.Attempts, cfg.DeadLetter, cfg.Batch = 3, "dead", 10
	f.run(cfg, AtLeastOnce(func(_ context.Context, messages []Message) error {
		for _, m := range messages {
			if string(m.Value) == "bad" {
				log.add(fmt.Sprintf("failed in %d", len(messages)))
				return errors.New("no such order")
			}
		}
		for _, m := range messages {
			log.add(string(m.Value))
		}
		return nil
	}), func() {
		log.await(t, "failed in 3", "a", "failed in 1", "failed in 1", "failed in 1", "c")
		f.awaitCommitted("g", 3)
	})
	records, err := kafkatest.ReadAll(t.Context(), f.addrs, "dead")
	if err != nil || len(records) != 1 || string(records[0].Key) != "key" || string(records[0].Value) != "bad" {
		t.Fatalf("%v, %v", records, err)
	}
	headers := ""
	for _, h := range records[0].Headers {
		headers += h.Name + "=" + string(h.Value) + " "
	}
	if want := "id=bad consumer.group=g consumer.topic=topic consumer.partition=0 consumer.offset=1 consumer.attempts=3 consumer.error=no such order "; headers != want {
		t.Errorf("got  %s\nwant %s", headers, want)
	}
}

// Without a dead-letter topic the last attempt ends Run, and the message is not committed.
func TestHalt(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.produce("a", "bad", "c")
	cfg := f.config("g")
	cfg.Attempts = 2
	err := Run(t.Context(), cfg, AtLeastOnce(func(_ context.Context, messages []Message) error {
		if string(messages[0].Value) == "bad" {
			return errors.New("no such order")
		}
		return nil
	}))
	if err == nil || !strings.Contains(err.Error(), "message topic/0 offset 1 (event bad) failed 2 times") || !strings.Contains(err.Error(), "no such order") {
		t.Errorf("got %v", err)
	}
	f.awaitCommitted("g", 1)
}

// At most once: what failed, and what was under way at the stop, does not come again.
func TestAtMostOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.produce("a", "bad", "stuck", "d")
	var log record
	h := AtMostOnce(func(ctx context.Context, messages []Message) error {
		value := string(messages[0].Value)
		log.add(value)
		if value == "stuck" {
			<-ctx.Done()
		}
		if value != "a" && value != "d" {
			return errors.New(value)
		}
		return nil
	})
	cfg := f.config("g")
	cfg.DrainTimeout = 10 * time.Millisecond
	f.run(cfg, h, func() { log.await(t, "a", "bad", "stuck") })
	f.run(cfg, h, func() { log.await(t, "a", "bad", "stuck", "d") })
}

// A message that is under way when Run is stopped is finished and committed if it ends in time, and is not committed if it
// does not. Nor are those behind it.
func TestStop(t *testing.T) {
	for name, drain := range map[string]time.Duration{"in time": 20 * time.Second, "too late": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.produce("a", "slow", "c")
			var log record
			stopping := make(chan struct{})
			cfg := f.config("g")
			cfg.DrainTimeout = drain
			f.run(cfg, AtLeastOnce(func(ctx context.Context, messages []Message) error {
				log.add(string(messages[0].Value))
				if string(messages[0].Value) != "slow" {
					return nil
				}
				<-stopping
				if name == "too late" {
					<-ctx.Done()
				}
				return ctx.Err()
			}), func() {
				log.await(t, "a", "slow")
				f.onStop = func() { close(stopping) }
			})
			want := int64(2)
			if name == "too late" {
				want = 1
			}
			if got := f.committed("g"); got != want {
				t.Errorf("committed %d, want %d", got, want)
			}
		})
	}
}

// A commit that the group refuses ends the generation: what was not committed comes again, nothing is left out.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.produce("a", "b", "c")
	refused := false
	f.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		commit := req.(*kmsg.OffsetCommitRequest)
		if refused || commit.Topics[0].Partitions[0].Offset != 2 {
			f.cluster.KeepControl()
			return nil, nil, false
		}
		refused = true
		answer := commit.ResponseKind().(*kmsg.OffsetCommitResponse)
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic = commit.Topics[0].Topic
		partition := kmsg.NewOffsetCommitResponseTopicPartition()
		partition.ErrorCode = kerr.IllegalGeneration.Code
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		f.cluster.KeepControl()
		return answer, nil, true
	})
	var log record
	f.run(f.config("g"), AtLeastOnce(func(_ context.Context, messages []Message) error {
		log.add(string(messages[0].Value))
		return nil
	}), func() {
		log.await(t, "a", "b", "b", "c")
		f.awaitCommitted("g", 3)
	})
}

// Wrong settings are told at once, all together.
func TestConfig(t *testing.T) {
	h := AtLeastOnce(func(context.Context, []Message) error { return nil })
	err := Run(t.Context(), Config{Batch: -1, Concurrency: 1000, Attempts: -1, MinBackoff: time.Nanosecond, DrainTimeout: time.Hour, Retention: time.Hour, DeadLetter: "d"}, h)
	for _, want := range []string{"Brokers, Group and Topics", "Batch -1", "Concurrency 1000", "Attempts -1", "backoff", "DrainTimeout", "has no inbox"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in: %v", want, err)
		}
	}
	inOrder := ExactlyOnceInOrder(nil, "c", nil)
	err = Run(t.Context(), Config{Brokers: []string{"b"}, Group: "g", Topics: []string{"t"}, Concurrency: 2, DeadLetter: "d"}, inOrder)
	if err == nil || !strings.Contains(err.Error(), "remembers positions") || !strings.Contains(err.Error(), "set Attempts too") {
		t.Error(err)
	}
	if err := Run(t.Context(), Config{Brokers: []string{"b"}, Group: "g", Topics: []string{"t"}}, Handler{}); err == nil {
		t.Error("an empty Handler was accepted")
	}
}

// fake is a topic with one partition on kfake.
type fake struct {
	t       *testing.T
	cluster *kfake.Cluster
	addrs   []string
	client  *kgo.Client
	onStop  func()
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, cluster: kafkatest.Fake(t, kfake.SeedTopics(1, "topic", "dead"))}
	f.addrs = f.cluster.ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.addrs...), kgo.DefaultProduceTopic("topic"))
	if err != nil {
		t.Fatal(err)
	}
	f.client = client
	t.Cleanup(client.Close)
	return f
}

func (f *fake) produce(values ...string) {
	f.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Key: []byte("key"), Value: []byte(v), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(v)}}}
		if err := f.client.ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fake) config(group string) Config {
	return Config{Brokers: f.addrs, Group: group, Topics: []string{"topic"}, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(f.t.Output(), nil))}
}

// run runs a consumer while during runs, stops it and waits for its end.
func (f *fake) run(cfg Config, h Handler, during func()) {
	f.t.Helper()
	running(f.t, cfg, h, during, func() {
		if f.onStop != nil {
			f.onStop()
		}
	})
}

// running runs a consumer while during runs, stops it, calls stopped and waits for its end.
func running(t *testing.T, cfg Config, h Handler, during, stopped func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg, h) }()
	defer func() {
		stop()
		stopped()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	during()
}

// committed is the group's offset of a partition; -1: none.
func committed(t *testing.T, addrs []string, group, topic string, partition int32) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MaxVersions(kversion.V2_4_0())) // before groups and topics had other names
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	of := kmsg.NewOffsetFetchRequestTopic()
	of.Topic, of.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, of)
	answer, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Topics) == 0 {
		return -1
	}
	return answer.Topics[0].Partitions[0].Offset
}

func (f *fake) committed(group string) int64 { return committed(f.t, f.addrs, group, "topic", 0) }

func (f *fake) awaitCommitted(group string, want int64) {
	f.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for got := int64(-2); got != want; time.Sleep(5 * time.Millisecond) {
		if got = f.committed(group); time.Now().After(deadline) {
			f.t.Fatalf("committed %d, want %d", got, want)
		}
	}
}

// record is what handlers were given.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func (r *record) await(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for got := r.all(); !slices.Equal(got, want); time.Sleep(5 * time.Millisecond) {
		if got = r.all(); len(got) > len(want) || time.Now().After(deadline) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}
