package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/router"
)

// harness is a producer and a kfake cluster inside a synctest bubble: time passes only when everything waits, so that
// half a minute of halting takes no time and nothing depends on the machine's speed.
type harness struct {
	t       *testing.T
	network *network
	addrs   []string // of the brokers asked first
	cluster *kfake.Cluster
	real    *kafkatest.Cluster // instead of cluster
	p       *Producer
	acked   []Ack
	sent    map[string]map[int32][]string // values in the order of Append, by topic and partition
	end     context.CancelFunc
	over    chan error
	tx      uint64
	hold    bool // the test calls Send itself
	pad     int  // bytes of a header that makes records larger
}

// inBubble runs a test with a harness. The brokers are 127.0.0.1:9092 and up.
func inBubble(t *testing.T, brokers int, opts []kfake.Opt, configure func(*Config), test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ports := make([]int, brokers)
		for i := range ports {
			ports[i] = 9092 + i
		}
		h := newHarness(t, virtualNetwork())
		h.run(append([]kfake.Opt{kfake.Ports(ports...)}, opts...), configure, test)
	})
}

// onTCP runs a test with a harness in real time on real connections.
func onTCP(t *testing.T, brokers int, opts []kfake.Opt, configure func(*Config), test func(*harness)) {
	t.Helper()
	newHarness(t, realNetwork()).run(append([]kfake.Opt{kfake.NumBrokers(brokers)}, opts...), configure, test)
}

func newHarness(t *testing.T, n *network) *harness {
	return &harness{t: t, network: n, addrs: []string{"127.0.0.1:9092"}, sent: map[string]map[int32][]string{}}
}

func (h *harness) run(opts []kfake.Opt, configure func(*Config), test func(*harness)) {
	h.t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.ListenFn(h.network.Listen)}, opts...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.cluster = cluster
	defer h.cluster.Close()
	h.addrs = cluster.ListenAddrs()[:1]
	h.start(configure)
	defer h.stop()
	test(h)
}

func (h *harness) start(configure func(*Config)) {
	cfg := Config{Brokers: h.addrs, Dial: h.network.DialContext}
	if configure != nil {
		configure(&cfg)
	}
	h.p = New(cfg, logger(h.t))
	ctx, cancel := context.WithCancel(h.t.Context())
	h.end, h.over = cancel, make(chan error, 1)
	go func() { h.over <- h.p.Run(ctx) }()
}

func logger(t *testing.T) *zap.Logger {
	return zaptest.NewLogger(t, zaptest.Level(zap.DebugLevel))
}

// stop ends the producer and wants no error, unless the test has taken the error.
func (h *harness) stop() {
	h.end()
	if err, ok := <-h.over; ok && err != nil {
		h.t.Errorf("Run: %v", err)
	}
}

// waitOver waits until Run ends with a session error.
func (h *harness) waitOver() *SessionError {
	h.t.Helper()
	var err error
	select {
	case err = <-h.over:
		close(h.over)
	case <-time.After(10 * time.Minute):
		h.t.Fatal("Run goes on")
	}
	var over *SessionError
	if !errors.As(err, &over) {
		h.t.Fatalf("Run: %v, want a session error", err)
	}
	return over
}

// send appends records with the values first..last-1 under one key and waits until all are taken.
func (h *harness) send(topic, key string, first, last int) {
	h.t.Helper()
	for i := first; i < last; i++ {
		h.append(h.message(topic, key, i))
	}
}

// message is a record of now: Kafka forgets a producer whose last record is a day old by its timestamp, and then takes a
// batch that comes again for a new one.
func (h *harness) message(topic, key string, value int) *router.Message {
	m := &router.Message{Topic: topic, Key: []byte(key), Value: []byte(strconv.Itoa(value)), Partition: -1,
		Time: time.Now().UnixMilli()}
	if h.pad > 0 {
		m.Headers = []router.Header{{Name: "pad", Value: make([]byte, h.pad)}}
	}
	return m
}

func (h *harness) append(m *router.Message) {
	h.t.Helper()
	deadline := time.After(10 * time.Minute)
	for {
		switch h.offer(m) {
		case Appended:
			return
		default:
			select {
			case <-h.p.Notify():
			case <-deadline:
				trouble, _ := h.p.Trouble()
				h.t.Fatalf("%s %s is not taken: %+v", m.Topic, m.Value, trouble)
			}
		}
	}
}

// offer appends once.
func (h *harness) offer(m *router.Message) Status {
	h.t.Helper()
	h.tx++
	status, err := h.p.Append(m, h.tx)
	if !h.hold {
		h.p.Send()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	if status == Appended {
		partition := m.Partition
		if partition < 0 {
			partition = partitionOf(m.Key, h.partitions(m.Topic))
		}
		if h.sent[m.Topic] == nil {
			h.sent[m.Topic] = map[int32][]string{}
		}
		h.sent[m.Topic][partition] = append(h.sent[m.Topic][partition], string(m.Value))
	}
	return status
}

func (h *harness) partitions(topic string) int {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	return len(h.p.topics[topic].partitions)
}

// flush waits until everything is acknowledged.
func (h *harness) flush() {
	h.t.Helper()
	h.until("everything is acknowledged", h.p.Flushed)
	h.acked = h.p.Acked(h.acked)
}

// until waits until a condition holds. Ten minutes of the bubble's time are enough for everything.
func (h *harness) until(what string, holds func() bool) {
	h.t.Helper()
	for range 600_000 {
		if holds() {
			return
		}
		select {
		case err := <-h.over:
			close(h.over)
			h.t.Fatalf("%s: Run: %v", what, err)
		case <-h.p.Notify():
		case <-time.After(time.Millisecond):
		}
	}
	h.t.Fatalf("not so after ten minutes: %s; %+v", what, h.p.Stats())
}

// flushed waits for all acknowledgements and then audits.
func (h *harness) flushAndAudit() {
	h.t.Helper()
	h.flush()
	h.audit()
	var n int
	for _, a := range h.acked {
		n += int(a.N)
	}
	if want := h.count(); n != want {
		h.t.Errorf("%d records acknowledged, want %d", n, want)
	}
}

func (h *harness) count() int {
	n := 0
	for _, partitions := range h.sent {
		for _, values := range partitions {
			n += len(values)
		}
	}
	return n
}

// audit wants exactly what was sent in every log: nothing missing, nothing twice, nothing out of order.
func (h *harness) audit() {
	h.t.Helper()
	for topic, want := range h.sent {
		if diff := cmp.Diff(want, h.logs(topic)); diff != "" {
			h.t.Errorf("topic %s, sent (-) and in the log (+):\n%s", topic, clip(diff))
		}
	}
}

func clip(s string) string {
	if lines := strings.SplitAfter(s, "\n"); len(lines) > 12 {
		return strings.Join(lines[:12], "") + "...\n"
	}
	return s
}

// logs are the values in a topic's partitions.
func (h *harness) logs(topic string) map[int32][]string {
	h.t.Helper()
	values := map[int32][]string{}
	if h.real != nil {
		for _, r := range h.realRecords(topic) {
			values[r.Partition] = append(values[r.Partition], string(r.Value))
		}
		return values
	}
	for _, r := range h.records(topic) {
		values[r.Partition] = append(values[r.Partition], string(r.Value))
	}
	return values
}

// realRecords reads a topic of Apache Kafka. A broker that was stopped thinks for a moment that it still leads, and tells
// of an end of the log that is long past; so a log that is too short is read again for a while.
func (h *harness) realRecords(topic string) []kafkatest.Record {
	h.t.Helper()
	want := 0
	for _, values := range h.sent[topic] {
		want += len(values)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(500 * time.Millisecond) {
		records, err := kafkatest.ReadAll(h.t.Context(), h.real.Bootstrap(), topic)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(records) >= want || time.Now().After(deadline) {
			return records
		}
	}
}

// records reads a topic with franz-go.
func (h *harness) records(topic string) []*kgo.Record {
	h.t.Helper()
	return readAll(h.t, h.cluster, topic, h.franz()...)
}

// franz are the options with which a franz-go client reaches the cluster.
func (h *harness) franz() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(h.addrs...), kgo.Dialer(h.network.dial)}
}

func readAll(t *testing.T, cluster *kfake.Cluster, topic string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var left int64
	for i := int32(0); ; i++ {
		info := cluster.PartitionInfo(topic, i)
		if info == nil {
			break
		}
		left += info.HighWatermark
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for int64(len(records)) < left {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %s: %d of %d records", topic, len(records), left)
		}
		for _, e := range fetches.Errors() {
			t.Fatal(e.Err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func key(i int) string { return fmt.Sprintf("key-%d", i) }
