package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/walrelay/walrelay/router"
)

// desk is a producer without goroutines or brokers: the test plays metadata and lane.
type desk struct {
	*Producer
	lane   *lane
	answer produce.Response
}

// newDesk knows the topic "orders" with the given number of partitions, all led by one broker.
func newDesk(t testing.TB, cfg Config, partitions int) *desk {
	t.Helper()
	cfg.Brokers = []string{"localhost:9092"}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	d := &desk{Producer: New(cfg, nil)}
	d.startLane, d.stopped = func(*lane) {}, false
	d.begin(identity{id: 7, epoch: 1}, false)
	if _, poison := d.lookUp("orders"); poison != nil {
		t.Fatal(poison)
	}
	d.tell(t, metadataOf("orders", partitions, 0))
	d.lane = newLane(d.Producer, d.cluster.brokers[1])
	d.answer = produce.Response{Topics: []produce.ResponseTopic{{Topic: "orders"}}}
	return d
}

func (d *desk) tell(t testing.TB, news *metadata.Response) {
	t.Helper()
	if err := d.learn(news, []string{"orders"}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func metadataOf(topic string, partitions int, epoch int32) *metadata.Response {
	news := &metadata.Response{ClusterID: "c", Brokers: []metadata.ResponseBroker{{NodeID: 1, Host: "localhost", Port: 9092}}}
	news.Topics = []metadata.ResponseTopic{{Name: topic}}
	for i := range partitions {
		news.Topics[0].Partitions = append(news.Topics[0].Partitions,
			metadata.ResponsePartition{PartitionIndex: int32(i), LeaderID: 1, LeaderEpoch: epoch})
	}
	return news
}

// acknowledge sends what is ready and answers that all went well.
func (d *desk) acknowledge(t testing.TB) {
	d.mu.Lock()
	d.lane.take(time.Now())
	d.mu.Unlock()
	if err := d.lane.stamp(); err != nil {
		t.Fatal(err)
	}
	d.lane.encode()
	all := &d.answer.Topics[0]
	for i := len(all.Partitions); i < len(d.topics["orders"].partitions); i++ {
		all.Partitions = append(all.Partitions, produce.ResponsePartition{Partition: int32(i)})
	}
	if err := d.lane.settle(&d.answer); err != nil {
		t.Fatal(err)
	}
}

func record(topic string, key, value string) *router.Message {
	return &router.Message{Topic: topic, Key: []byte(key), Value: []byte(value), Partition: -1}
}

func wantStatus(t *testing.T, p *Producer, m *router.Message, want Status) {
	t.Helper()
	if got, err := p.Append(m, 1); err != nil || got != want {
		t.Fatalf("Append: %v, %v, want %v", got, err, want)
	}
}

func TestPoison(t *testing.T) {
	d := newDesk(t, Config{MaxRecordBytes: 10_000}, 3)
	cases := []struct {
		name   string
		m      *router.Message
		reason string
	}{
		{"empty topic", record("", "k", "v"), ReasonTopicName},
		{"dot", record(".", "k", "v"), ReasonTopicName},
		{"two dots", record("..", "k", "v"), ReasonTopicName},
		{"space", record("a b", "k", "v"), ReasonTopicName},
		{"slash", record("a/b", "k", "v"), ReasonTopicName},
		{"umlaut", record("bär", "k", "v"), ReasonTopicName},
		{"250 letters", record(strings.Repeat("a", 250), "k", "v"), ReasonTopicName},
		{"too large", record("orders", "k", strings.Repeat("v", 10_000)), ReasonRecordBytes},
		{"partition too high", &router.Message{Topic: "orders", Partition: 3}, ReasonPartition},
		{"partition below -1", &router.Message{Topic: "orders", Partition: -2}, ReasonPartition},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, err := d.Append(c.m, 1)
			var poison *PoisonError
			if !errors.As(err, &poison) || poison.Reason != c.reason || poison.Topic != c.m.Topic || poison.Error() == "" {
				t.Fatalf("Append: %v, %v, want poison %q", status, err, c.reason)
			}
		})
	}
	if s := d.Stats(); s.InFlightRecords != 0 || s.Topics != 1 {
		t.Errorf("poison left something behind: %+v", s)
	}
}

func TestLegalTopicNames(t *testing.T) {
	for _, name := range []string{"a", "A-z_0.9", "...", strings.Repeat("a", 249)} {
		if !LegalTopicName(name) {
			t.Errorf("%q is legal", name)
		}
	}
}

func TestPendingUntilEverythingIsKnown(t *testing.T) {
	p := New(Config{Brokers: []string{"localhost:9092"}}, nil)
	p.startLane, p.stopped = func(*lane) {}, false
	wantStatus(t, p, record("orders", "k", "v"), Pending)
	if err := p.learn(metadataOf("orders", 3, 0), []string{"orders"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, p, record("orders", "k", "v"), Pending) // no session
	drainNotify(p)
	p.begin(identity{id: 7}, false)
	select {
	case <-p.Notify():
	default:
		t.Error("no event when the topic opened")
	}
	wantStatus(t, p, record("orders", "k", "v"), Appended)
	wantStatus(t, p, record("another", "k", "v"), Pending)
}

func drainNotify(p *Producer) {
	select {
	case <-p.Notify():
	default:
	}
}

func TestQuotaOfRecords(t *testing.T) {
	d := newDesk(t, Config{MaxInFlightRecords: 3}, 1)
	for range 3 {
		wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
	}
	wantStatus(t, d.Producer, record("orders", "k", "v"), Full)
	d.acknowledge(t)
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
}

func TestQuotaOfBytes(t *testing.T) {
	d := newDesk(t, Config{MaxInFlightBytes: 64 << 10}, 1)
	for range 2 {
		wantStatus(t, d.Producer, record("orders", "k", strings.Repeat("v", 30_000)), Appended)
	}
	wantStatus(t, d.Producer, record("orders", "k", strings.Repeat("v", 30_000)), Full)
	if s := d.Stats(); s.InFlightRecords != 2 || s.InFlightBytes < 60_000 || d.Flushed() {
		t.Errorf("%+v", s)
	}
	d.acknowledge(t)
	if s := d.Stats(); s.InFlightRecords != 0 || s.InFlightBytes != 0 || !d.Flushed() {
		t.Errorf("%+v", s)
	}
	if d.pool.out != 0 {
		t.Errorf("%d bytes of buffers are not given back", d.pool.out)
	}
}

// A record above the whole quota passes alone.
func TestRecordAboveTheQuotaPasses(t *testing.T) {
	d := newDesk(t, Config{MaxInFlightBytes: 64 << 10}, 1)
	huge := record("orders", "k", strings.Repeat("v", 3<<20))
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
	wantStatus(t, d.Producer, huge, Full)
	d.acknowledge(t)
	wantStatus(t, d.Producer, huge, Appended)
	wantStatus(t, d.Producer, record("orders", "k", "v"), Full)
	d.acknowledge(t)
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
}

// Acks name the transactions in the order of Append, per partition.
func TestAcks(t *testing.T) {
	d := newDesk(t, Config{}, 1)
	for _, tx := range []uint64{1, 1, 1, 2, 3, 3} {
		if status, err := d.Append(record("orders", "k", "v"), tx); status != Appended || err != nil {
			t.Fatal(status, err)
		}
	}
	if acks := d.Acked(nil); len(acks) != 0 {
		t.Errorf("acknowledged before the answer: %v", acks)
	}
	d.acknowledge(t)
	if diff := cmp.Diff([]Ack{{1, 3}, {2, 1}, {3, 2}}, d.Acked(nil)); diff != "" {
		t.Error(diff)
	}
	if acks := d.Acked(nil); len(acks) != 0 {
		t.Errorf("acknowledged twice: %v", acks)
	}
}

// A record that comes while its partition's batch is on the wire waits for the answer.
func TestOneBatchInFlight(t *testing.T) {
	d := newDesk(t, Config{}, 1)
	wantStatus(t, d.Producer, record("orders", "k", "1"), Appended)
	d.lane.take(time.Now())
	wantStatus(t, d.Producer, record("orders", "k", "2"), Appended)
	other := newLane(d.Producer, d.lane.b)
	if other.take(time.Now()); len(other.items) != 0 {
		t.Fatal("a second batch of the partition was taken")
	}
	if at, work := d.lane.b.startAt(time.Now(), true, false, 0); work {
		t.Fatalf("a lane may start at %v", at)
	}
}

func TestBatchesAreClosedAtTheLimit(t *testing.T) {
	d := newDesk(t, Config{BatchBytes: 1 << 10}, 1)
	for range 10 {
		wantStatus(t, d.Producer, record("orders", "k", strings.Repeat("v", 300)), Appended)
	}
	sizes := []int{}
	for b := d.topics["orders"].partitions[0].head; b != nil; b = b.next {
		sizes = append(sizes, int(b.records))
		if b.plain.size > 1<<10 {
			t.Errorf("batch of %d bytes", b.plain.size)
		}
	}
	if diff := cmp.Diff([]int{3, 3, 3, 1}, sizes); diff != "" {
		t.Error(diff)
	}
}

// Records without key share a partition's batch and go to another partition with the next.
func TestKeylessRecordsStickToABatch(t *testing.T) {
	d := newDesk(t, Config{}, 3)
	seen := map[int32]int{}
	for range 6 {
		for range 5 {
			wantStatus(t, d.Producer, &router.Message{Topic: "orders", Value: []byte("v"), Partition: -1}, Appended)
		}
		for _, pt := range d.topics["orders"].partitions {
			if pt.head != nil {
				seen[pt.id] += int(pt.head.records)
			}
		}
		d.acknowledge(t)
	}
	if diff := cmp.Diff(map[int32]int{0: 10, 1: 10, 2: 10}, seen); diff != "" {
		t.Error(diff)
	}
}

// When a further request starts beside one under way.
func TestSpread(t *testing.T) {
	d := newDesk(t, Config{}, 3)
	b, second := d.lane.b, newLane(d.Producer, d.lane.b)
	put := func(partition int32, size int) {
		wantStatus(t, d.Producer, &router.Message{Topic: "orders", Value: make([]byte, size), Partition: partition}, Appended)
	}
	start := time.Now()
	put(0, 100)
	if at, work := b.startAt(start, true, false, 0); !work || at.After(start) {
		t.Fatal("the first request must start at once")
	}
	d.lane.take(start)
	put(1, 100)
	if at, work := b.startAt(start, true, false, 0); !work || !at.Equal(start.Add(spreadAge)) {
		t.Errorf("a small second request starts at %v, want %v later", at.Sub(start), spreadAge)
	}
	put(2, spreadBytes)
	if at, work := b.startAt(start, true, false, 0); !work || at.After(start) {
		t.Error("a large second request must start at once")
	}
	second.take(start)
	if len(second.items) != 2 {
		t.Errorf("%d partitions in the second request", len(second.items))
	}
}

func TestLinger(t *testing.T) {
	d := newDesk(t, Config{Linger: 20 * time.Millisecond}, 2)
	wantStatus(t, d.Producer, record("orders", "k", "v"), Appended)
	b := d.lane.b
	if at, work := b.startAt(time.Now(), true, false, d.cfg.Linger); !work || !at.Equal(b.readySince.Add(20*time.Millisecond)) {
		t.Errorf("start at %v, %v", at, work)
	}
	wantStatus(t, d.Producer, record("orders", "k", strings.Repeat("v", spreadBytes)), Appended)
	if at, _ := b.startAt(time.Now(), true, false, d.cfg.Linger); at.After(time.Now()) {
		t.Error("a large batch must not linger")
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	d := newDesk(t, Config{OnBatch: func(BatchAck) {}}, 6)
	m := router.Message{Topic: "orders", Value: make([]byte, 300), Partition: -1, Time: 1e12,
		Headers: []router.Header{{Name: "id", Value: make([]byte, 36)}, {Name: "walrelay.lsn", Value: make([]byte, 40)}}}
	keys := make([][]byte, 100)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i)
	}
	acks := make([]Ack, 0, 10_000)
	tx := uint64(0)
	round := func() {
		for i := range 5000 {
			m.Key = keys[i%len(keys)]
			tx++
			if status, err := d.Append(&m, tx); status != Appended || err != nil {
				t.Fatal(status, err)
			}
		}
		d.acknowledge(t)
		acks = d.Acked(acks[:0])
	}
	round()
	round()
	if waste := d.pool.kept - 5000*450; waste > 500_000 {
		t.Errorf("%d bytes of buffers more than 5000 records have", waste)
	}
	if n := testing.AllocsPerRun(20, round); n > 0 {
		t.Errorf("%v allocations for 5000 records", n)
	}
}
