package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

const source = 0xabcd

// began is the time of all events; Kafka takes no record from the future.
var began = time.Now()

// event is the n-th event of a source: one transaction each, key and partition follow from n.
func event(topic string, n int) *router.Message {
	id := lsn.Identity{Source: source, Commit: lsn.Start(1000 + 10*n), Time: int64(n), Ordinal: 1}
	return &router.Message{
		Topic: topic, Key: []byte(key(n % 5)), Value: []byte(strconv.Itoa(n)), Partition: -1, Time: began.UnixMilli(),
		Identity: id,
		Headers: []router.Header{
			{Name: "id", Value: []byte(fmt.Sprint("id-", n))},
			{Name: router.HeaderPosition, Value: id.Append(nil)},
		},
	}
}

// end is the position behind the n-th event.
func end(n int) lsn.End { return lsn.End(1000 + 10*n + 5) }

// life is one producer's life on a cluster.
type life struct {
	*Producer
	t    *testing.T
	stop context.CancelFunc
	over chan error
}

func begin(t *testing.T, addrs []string, cfg Config) *life {
	t.Helper()
	cfg.Brokers = addrs
	cfg.TransactionalID = "walrelay/test"
	return beginWith(t, cfg, func(*Producer) {})
}

// beginWith is begin with a producer that is changed before it runs.
func beginWith(t *testing.T, cfg Config, change func(*Producer)) *life {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{Producer: New(cfg, logger(t)), t: t, stop: cancel, over: make(chan error, 1)}
	change(l.Producer)
	go func() { l.over <- l.Run(ctx) }()
	t.Cleanup(func() { l.end() })
	return l
}

// end kills the producer: what is in flight stays unknown.
func (l *life) end() error {
	l.stop()
	err := <-l.over
	l.over <- err
	return err
}

// offer appends the message when the producer takes it, and tells whether it was suppressed.
func (l *life) offer(m *router.Message) (suppressed bool) {
	l.t.Helper()
	deadline := time.After(time.Minute)
	for {
		status, err := l.Append(m, 1)
		l.Send()
		switch {
		case err != nil:
			l.t.Fatal(err)
		case status == Appended, status == Suppressed:
			return status == Suppressed
		}
		select {
		case <-l.Notify():
		case err := <-l.over:
			l.over <- err
			l.t.Fatalf("Run: %v", err)
		case <-deadline:
			trouble, _ := l.Trouble()
			l.t.Fatalf("%s is not taken: %+v", m.Value, trouble)
		}
	}
}

func (l *life) flush() {
	l.t.Helper()
	l.await("everything is acknowledged", l.Flushed)
}

func (l *life) await(what string, holds func() bool) {
	l.t.Helper()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-l.Notify():
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			l.t.Fatalf("not in time: %s", what)
		}
	}
}

func read(t *testing.T, addrs []string, topic string) kafkatest.Log {
	t.Helper()
	log, err := kafkatest.Read(t.Context(), addrs, topic)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// values are the records of a topic, sorted.
func values(t *testing.T, log kafkatest.Log) []int {
	t.Helper()
	var all []int
	for _, r := range log.Records {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// The first producer published 30 events and only 10 of them are saved; the second one is sent 20 of them again.
func testEachEventOnce(t *testing.T, addrs []string, codec compress.Compression) {
	const topic = "orders"
	first := begin(t, addrs, Config{Compression: codec})
	for n := range 30 {
		first.offer(event(topic, n))
	}
	first.flush()
	if err := first.end(); err != nil {
		t.Fatal(err)
	}

	second := begin(t, addrs, Config{Compression: codec, Resume: &Resume{
		Source: source, From: end(9), To: end(39), Since: began, ProducerID: first.ProducerID(),
	}})
	for n := 10; n < 50; n++ {
		if suppressed := second.offer(event(topic, n)); suppressed != (n < 30) {
			t.Errorf("event %d suppressed: %v", n, suppressed)
		}
		if n == 39 {
			if lost, total := second.Resumed(10); total != 0 {
				t.Errorf("%d events seem lost, such as %v", total, lost)
			}
		}
	}
	second.flush()
	log := read(t, addrs, topic)
	if got := values(t, log); !slices.Equal(got, upTo(50)) {
		t.Errorf("in the topic: %v", got)
	}
	wantFenced(t, log)
}

// wantFenced wants a marker of the new epoch in each partition, in front of the epoch's first record.
func wantFenced(t *testing.T, log kafkatest.Log) {
	t.Helper()
	last := int16(-1)
	for _, c := range log.Controls {
		last = max(last, c.ProducerEpoch)
	}
	markers := map[int32]int64{}
	for _, c := range log.Controls {
		if at, ok := markers[c.Partition]; c.ProducerEpoch == last && (!ok || c.Offset < at) {
			markers[c.Partition] = c.Offset
		}
	}
	if len(markers) != kafkatest.Partitions {
		t.Errorf("%d partitions have a marker of epoch %d, want %d", len(markers), last, kafkatest.Partitions)
	}
	for _, r := range log.Records {
		if r.ProducerEpoch == last && r.Offset < markers[r.Partition] {
			t.Errorf("partition %d: record at %d stands before the marker at %d", r.Partition, r.Offset, markers[r.Partition])
		}
	}
}

func TestEachEventOnce(t *testing.T) {
	for _, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			testEachEventOnce(t, kafkatest.Fake(t, kfake.NumBrokers(3)).ListenAddrs(), codec)
		})
	}
}

// Without uncertain events there is no marker: consumers on kafka-go see markers as messages.
func TestNoMarkerWithoutNeed(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t).ListenAddrs()
	first := begin(t, addrs, Config{})
	first.offer(event("a", 1))
	first.flush()
	first.end()
	second := begin(t, addrs, Config{Resume: &Resume{Source: source, From: end(1), To: end(5), ProducerID: -1}})
	second.Resumed(0) // the stream is past it before the first event comes
	second.offer(event("a", 6))
	second.flush()
	if log := read(t, addrs, "a"); len(log.Controls) != 0 || len(log.Records) != 2 {
		t.Errorf("%d markers, %d records", len(log.Controls), len(log.Records))
	}
}

// A relay that was frozen goes on after another one has taken over: it must not write.
func TestFrozenProducerIsRefused(t *testing.T) {
	t.Parallel()
	testFrozen(t, kafkatest.Fake(t).ListenAddrs(), "orders")
}

func testFrozen(t *testing.T, addrs []string, topic string) {
	frozen := begin(t, addrs, Config{})
	frozen.offer(event(topic, 0))
	frozen.flush()
	second := begin(t, addrs, Config{Resume: &Resume{Source: source, From: 0, To: end(5), ProducerID: frozen.ProducerID()}})
	second.offer(event(topic, 0))
	second.offer(event(topic, 1))
	second.flush()

	frozen.offer(event(topic, 1))
	var over *SessionError
	select {
	case err := <-frozen.over:
		frozen.over <- nil
		if !errors.As(err, &over) || !over.Fenced() {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the frozen producer goes on")
	}
	if got := values(t, read(t, addrs, topic)); !slices.Equal(got, upTo(2)) {
		t.Errorf("in the topic: %v", got)
	}
}

// What counts as the same event: source, position, time, ordinal and id; and only inside the uncertain range.
func TestOnlyTheSameEventIsSuppressed(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t).ListenAddrs()
	first := begin(t, addrs, Config{})
	for n := range 10 {
		first.offer(event("orders", n))
	}
	first.flush()
	first.end()
	for _, c := range []struct {
		name   string
		change func(m *router.Message)
	}{
		{"another database", func(m *router.Message) { m.Identity.Source++ }},
		{"another position", func(m *router.Message) { m.Identity.Commit++ }},
		{"another time (a restored copy of the server)", func(m *router.Message) { m.Identity.Time++ }},
		{"another row of the transaction", func(m *router.Message) { m.Identity.Ordinal++ }},
		{"another id", func(m *router.Message) { m.Headers[0].Value = []byte("other") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := begin(t, addrs, Config{Resume: &Resume{Source: source, From: end(4), To: end(20), ProducerID: first.ProducerID()}})
			m := event("orders", 7)
			c.change(m)
			if p.offer(m) {
				t.Error("suppressed")
			}
			p.end()
		})
	}
	p := begin(t, addrs, Config{Resume: &Resume{Source: source, From: end(4), To: end(20), ProducerID: first.ProducerID()}})
	if !p.offer(event("orders", 7)) {
		t.Error("the same event is not suppressed")
	}
	if _, total := p.Resumed(3); total != 4 { // 5, 6, 8 and 9 did not come again
		t.Errorf("%d lost events, want 4", total)
	}
}

// Events of transactions that the server does not have are counted, wherever they are found, and no others.
func TestPhantoms(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t).ListenAddrs()
	first := begin(t, addrs, Config{})
	for n := range 10 {
		first.offer(event("orders", n))
		first.offer(event("stock", n))
	}
	first.flush()
	first.end()
	want := func(p *life, what string, ids ...int) {
		t.Helper()
		found, total := p.Resumed(10)
		slices.SortFunc(found, func(a, b lsn.Identity) int { return int(a.Commit) - int(b.Commit) })
		var events []int
		for _, id := range found {
			events = append(events, int(id.Time))
		}
		if !slices.Equal(events, ids) || total != len(ids) {
			t.Errorf("%s: %d phantoms, such as %v, want %v", what, total, events, ids)
		}
	}
	// The row was at event 4, and the server's log ends behind 7; it has 5 of those events, with one before it that is new.
	p := begin(t, addrs, Config{Resume: &Resume{Source: source, From: end(4), To: end(7), ProducerID: first.ProducerID(), Branched: true}})
	fresh := event("orders", 5)
	fresh.Identity.Time = 100
	if p.offer(fresh) || p.offer(event("orders", 5)) {
		t.Error("an event behind a new one of its partition is suppressed")
	}
	p.flush()
	want(p, "in a topic with an uncertain event", 6, 7, 8, 9)
	p.offer(event("orders", 20))
	p.flush()
	want(p, "told already")
	p.offer(event("stock", 21))
	p.flush()
	want(p, "in a topic that is used later", 5, 6, 7, 8, 9)
}

// When a topic gets more partitions while uncertain events come, it is looked through again: what this run has published
// itself is no phantom.
func TestOwnRecordsAreNoPhantoms(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.SeedTopics(1, "orders"))
	addrs := cluster.ListenAddrs()
	first := begin(t, addrs, Config{})
	first.offer(event("orders", 0))
	first.flush()
	first.end()
	p := begin(t, addrs, Config{MetadataMaxAge: 100 * time.Millisecond,
		Resume: &Resume{Source: source, From: end(-1), To: end(9), ProducerID: first.ProducerID()}})
	if !p.offer(event("orders", 0)) {
		t.Error("not suppressed")
	}
	p.offer(event("orders", 1))
	p.flush()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "orders", Count: 3}}
	grow.TimeoutMillis = 1000
	if answer, err := grow.RequestWith(t.Context(), client); err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatal(answer, err)
	}
	p.await("more partitions", func() bool { return p.Stats().PartitionChanges == 1 })
	p.offer(event("orders", 2))
	p.flush()
	if found, total := p.Resumed(10); total != 0 {
		t.Errorf("%d phantoms, such as %v", total, found)
	}
	if got := values(t, read(t, addrs, "orders")); !slices.Equal(got, upTo(3)) {
		t.Errorf("in the topic: %v", got)
	}
}

// From the first published event on, nothing in its partition is suppressed: a predecessor that the log has lost would
// come behind its successor.
func TestSuppressionIsPrefixClosed(t *testing.T) {
	d := newDesk(t, Config{}, 6)
	t.Run("of its own partition", func(t *testing.T) { testPrefixClosed(t, d, event("orders", 1), event("orders", 6), event("orders", 2)) })
	keyless := func(n int) *router.Message { m := event("orders", n); m.Key = nil; return m }
	t.Run("of records without key", func(t *testing.T) { testPrefixClosed(t, d, keyless(1), keyless(6), event("orders", 2)) })
}

// testPrefixClosed publishes missing; found, of the same partition, must follow it although it is there; elsewhere,
// of another partition, must not.
func testPrefixClosed(t *testing.T, d *desk, missing, found, elsewhere *router.Message) {
	top := d.topics["orders"]
	top.past = &past{found: map[lsn.Identity]uint64{found.Identity: messageHash(found), elsewhere.Identity: messageHash(elsewhere)}}
	if top.suppress(missing) {
		t.Error("an event that is not there is suppressed")
	}
	if top.suppress(found) {
		t.Error("an event behind a published one is suppressed")
	}
	if !top.suppress(elsewhere) {
		t.Error("an event of another partition is published again")
	}
}

// The log as it comes back: all codecs, batches that compaction has emptied, cut answers, markers, old formats.
func TestNextBatch(t *testing.T) {
	for _, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			pool := &bufferPool{keep: 1 << 20}
			b := newTestBatch()
			for n := range 100 {
				m := event("orders", n)
				b.append(m, payloadSize(m), b.sizeWith(payloadSize(m), m.Time), 1, pool)
			}
			var c compress.Codec
			if codec != compress.None {
				c = codec.Codec()
			}
			if err := b.stamp(identity{id: 9, epoch: 3}, 0, c, pool); err != nil {
				t.Fatal(err)
			}
			set := flat(b)[setPrefixSize:]
			got, rest, ok, err := nextBatch(append(slices.Clone(set), 1, 2, 3))
			if err != nil || !ok || len(rest) != 3 || got.producer != (identity{id: 9, epoch: 3}) || got.last != 99 || got.control {
				t.Fatalf("got %+v, %d bytes behind it, %v, %v", got, len(rest), ok, err)
			}
			n := 0
			err = got.each(func(headers []readHeader) error {
				want := event("orders", n)
				n++
				if len(headers) != 2 || string(headers[0].value) != string(want.Headers[0].Value) ||
					string(headers[1].value) != string(want.Headers[1].Value) {
					t.Fatalf("record %d has headers %q", n-1, headers)
				}
				return nil
			})
			if err != nil || n != 100 {
				t.Errorf("%d records, %v", n, err)
			}
			for cut := range len(set) {
				if _, _, ok, err := nextBatch(set[:cut]); ok || err != nil {
					t.Fatalf("cut at %d: %v, %v", cut, ok, err)
				}
			}
		})
	}
}

func FuzzNextBatch(f *testing.F) {
	b := newTestBatch(event("orders", 1))
	if err := b.stamp(identity{id: 9, epoch: 3}, 0, nil, &bufferPool{}); err != nil {
		f.Fatal(err)
	}
	f.Add(flat(b)[setPrefixSize:])
	f.Fuzz(func(t *testing.T, set []byte) {
		_, _ = decodeFetch(set)
		for len(set) > 0 {
			got, rest, ok, err := nextBatch(set)
			if err != nil || !ok {
				return
			}
			if got.codec == compress.None { // a decompressor's appetite is not ours to test
				_ = got.each(func([]readHeader) error { return nil })
			}
			set = rest
		}
	})
}
