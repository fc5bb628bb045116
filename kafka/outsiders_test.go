package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// firstCommit is the commit time of event 0 of these tests; each event comes a second later.
var firstCommit = time.Now().Add(-time.Hour).Truncate(time.Millisecond)

// taken is event n as this relay sends it.
func taken(topic string, n int) *router.Message {
	m := event(topic, n)
	m.Identity.Time = firstCommit.Add(time.Duration(n) * time.Second).UnixMicro()
	m.Headers[1].Value = m.Identity.Append(nil)
	return m
}

// outside is event n as somebody else has published it.
func outside(topic string, n int) *kgo.Record {
	m := taken(topic, n)
	return &kgo.Record{
		Topic: topic, Key: m.Key, Value: m.Value, Partition: partitionOf(m.Key, kafkatest.Partitions),
		Timestamp: time.UnixMicro(m.Identity.Time).Add(50 * time.Millisecond),
		Headers: []kgo.RecordHeader{
			{Key: "__debezium.context.taskId", Value: []byte("0")}, {Key: "id", Value: m.Headers[0].Value}, {Key: "id", Value: []byte("an alias")},
		},
	}
}

// stranger is a client that publishes into the partitions that the records name.
func stranger(t *testing.T, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func publish(t *testing.T, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// fillers are a record without id for each partition, behind the time of all others here: kfake finds no offset for a
// time that only markers are behind.
func fillers(topic string) []*kgo.Record {
	var all []*kgo.Record
	for id := range int32(kafkatest.Partitions) {
		all = append(all, &kgo.Record{Topic: topic, Partition: id, Timestamp: firstCommit.Add(time.Minute)})
	}
	return all
}

// takeOver is the configuration of a relay that goes on behind event 9, where somebody else has published.
func takeOver(byID bool) Config {
	return Config{Resume: &Resume{Source: source, From: end(9), To: end(39), Since: firstCommit, ProducerID: -1, ByID: byID}}
}

// Somebody else published 30 events, and this relay is sent 20 of them again.
func testTakeOver(t *testing.T, addrs []string, topic string) {
	var records []*kgo.Record
	for n := range 30 {
		records = append(records, outside(topic, n))
	}
	publish(t, stranger(t, addrs), records...)

	p := begin(t, addrs, takeOver(true))
	for n := 10; n < 50; n++ {
		if suppressed := p.offer(taken(topic, n)); suppressed != (n < 30) {
			t.Errorf("event %d suppressed: %v", n, suppressed)
		}
		if n == 39 {
			if lost, total := p.Resumed(10); total != 0 {
				t.Errorf("%d events seem lost, such as %v", total, lost)
			}
		}
	}
	p.flush()
	if got := values(t, read(t, addrs, topic)); !slices.Equal(got, upTo(50)) {
		t.Errorf("in the topic: %v", got)
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	testTakeOver(t, kafkatest.Fake(t).ListenAddrs(), "orders")
}

func TestRealTakeOver(t *testing.T) {
	testTakeOver(t, kafkatest.Shared(t, 1).Bootstrap(), "taken-over")
}

// Records of somebody else count only where a person wants that, and a relay that is killed on the way goes on with both:
// its own identities, and their ids.
func TestTakeOverInTwoRuns(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t).ListenAddrs()
	var records []*kgo.Record
	for n := range 20 {
		records = append(records, outside("orders", n))
	}
	publish(t, stranger(t, addrs), records...)
	publish(t, stranger(t, addrs), fillers("orders")...)
	first := begin(t, addrs, takeOver(true))
	for n := 10; n < 25; n++ {
		first.offer(taken("orders", n))
	}
	first.flush()
	cfg := takeOver(true)
	cfg.Resume.ProducerID = first.ProducerID()
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	second := begin(t, addrs, cfg)
	for n := 10; n < 30; n++ {
		if suppressed := second.offer(taken("orders", n)); suppressed != (n < 25) {
			t.Errorf("event %d suppressed: %v", n, suppressed)
		}
	}
	if waited := time.Since(began); waited < unfencedDelay {
		t.Errorf("waited %v, though nobody refuses what the other one may still send", waited)
	}
	cfg.Resume = &Resume{Source: source, From: end(9), To: end(39), Since: firstCommit, ProducerID: second.ProducerID()}
	second.flush()
	second.end()
	plain := begin(t, addrs, cfg)
	if plain.offer(taken("orders", 10)) {
		t.Error("without ByID an event is suppressed by its id")
	}
}

// What counts as the event of somebody else: id and key, not long before the first event.
func TestOnlyTheSameOutsiderSuppresses(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t).ListenAddrs()
	p := begin(t, addrs, takeOver(true))
	for n, c := range []struct {
		name       string
		change     func(r *kgo.Record, m *router.Message)
		suppressed bool
	}{
		{"the same", func(*kgo.Record, *router.Message) {}, true},
		{"of an earlier minute", func(r *kgo.Record, _ *router.Message) { r.Timestamp = r.Timestamp.Add(-50 * time.Second) }, true},
		{"long before", func(r *kgo.Record, _ *router.Message) { r.Timestamp = r.Timestamp.Add(-2 * time.Minute) }, false},
		{"both keys null", func(r *kgo.Record, m *router.Message) { r.Key, m.Key = nil, nil }, true},
		{"null and empty key", func(r *kgo.Record, m *router.Message) { r.Key, m.Key, m.Partition = []byte{}, nil, r.Partition }, false},
		{"another key", func(r *kgo.Record, _ *router.Message) { r.Key = []byte("other") }, false},
		{"another id", func(r *kgo.Record, _ *router.Message) { r.Headers[1].Value = []byte("other") }, false},
		{"no id header", func(r *kgo.Record, _ *router.Message) { r.Headers = r.Headers[:1] }, false},
		{"null ids", func(r *kgo.Record, m *router.Message) { r.Headers[1].Value, m.Headers[0].Value = nil, nil }, false},
		{"with a position of another database", func(r *kgo.Record, m *router.Message) {
			id := m.Identity
			id.Source++
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: router.HeaderPosition, Value: id.Append(nil)})
		}, false},
		{"behind the range", func(r *kgo.Record, m *router.Message) { m.Identity.Commit = lsn.Start(end(39)) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			topic := fmt.Sprint("case-", n)
			record, m := outside(topic, 15), taken(topic, 15)
			c.change(record, m)
			publish(t, stranger(t, addrs), append(fillers(topic), record)...)
			if got := p.offer(m); got != c.suppressed {
				t.Errorf("suppressed: %v", got)
			}
		})
	}
}

// A record in a transaction of somebody else counts when it was committed.
func testOutsidersInTransactions(t *testing.T, addrs []string, topic string) {
	publish(t, stranger(t, addrs), fillers(topic)...)
	for n, how := range []string{"committed", "aborted", "open"} {
		client := stranger(t, addrs, kgo.TransactionalID(topic+how))
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		publish(t, client, outside(topic, 10+n))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var err error
		switch how {
		case "committed":
			err = client.EndTransaction(ctx, kgo.TryCommit)
		case "aborted":
			err = client.EndTransaction(ctx, kgo.TryAbort)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := begin(t, addrs, takeOver(true))
	for n, want := range []bool{true, false, false} {
		if got := p.offer(taken(topic, 10+n)); got != want {
			t.Errorf("event %d suppressed: %v", 10+n, got)
		}
	}
}

func TestOutsidersInTransactions(t *testing.T) {
	t.Parallel()
	testOutsidersInTransactions(t, kafkatest.Fake(t).ListenAddrs(), "orders")
}

func TestRealOutsidersInTransactions(t *testing.T) {
	testOutsidersInTransactions(t, kafkatest.Shared(t, 1).Bootstrap(), "outsiders")
}

// Where a partition has more than can be remembered, the newest count: those are the ones that come again.
func TestOutsidersRememberTheNewest(t *testing.T) {
	t.Parallel()
	o := outsiders{limit: 10}
	for partition := range 3 {
		for n := range 97 {
			headers := []readHeader{{[]byte("id"), []byte(fmt.Sprint(partition, "-", n))}}
			o.take(&readBatch{key: []byte("k")}, headers, "id")
		}
		o.endPartition()
	}
	for partition := range 3 {
		for n := 92; n < 97; n++ {
			one, _ := outsiderOf(&router.Message{Key: []byte("k"), Headers: []router.Header{{Name: "id", Value: []byte(fmt.Sprint(partition, "-", n))}}})
			if _, ok := o.found[one]; !ok {
				t.Errorf("event %d of partition %d is forgotten", n, partition)
			}
		}
	}
	if len(o.found) > 3*o.limit {
		t.Errorf("%d are remembered", len(o.found))
	}
}

// Behind a published event of its partition, an outsider suppresses nothing.
func TestOutsidersArePrefixClosed(t *testing.T) {
	d := newDesk(t, Config{}, 6)
	top := d.topics["orders"]
	found, _ := outsiderOf(taken("orders", 6))
	top.past = &past{outsiders: map[outsider]struct{}{found: {}}}
	if top.suppress(taken("orders", 1)) {
		t.Error("an event that is not there is suppressed")
	}
	if top.suppress(taken("orders", 6)) {
		t.Error("an event behind a published one is suppressed")
	}
	if top.suppress(&router.Message{Topic: "orders", Key: []byte(strconv.Itoa(1)), Partition: -1}) {
		t.Error("an event without any header is suppressed")
	}
}
