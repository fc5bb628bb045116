package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/router"
)

// timed is the n-th event, with a record time of so many minutes behind a fixed one.
func timed(topic string, n, minutes int) *router.Message {
	m := event(topic, n)
	m.Time = at(minutes).UnixMilli()
	return m
}

func at(minutes int) time.Time {
	return time.UnixMilli(1_750_000_000_000).Add(time.Duration(minutes) * time.Minute)
}

func logReader(t *testing.T, addrs []string) *LogReader {
	r := NewLogReader(Config{Brokers: addrs, TransactionalID: "walrelay/test"}, logger(t))
	t.Cleanup(r.Close)
	return r
}

// collect gives a function that notes the values of records, and what it has noted, sorted.
func collect(t *testing.T) (take func(*Record) error, got func() []int) {
	var all []int
	return func(r *Record) error {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return err
			}
			if want := event(r.Topic, n); string(r.Key) != string(want.Key) || string(r.Headers[0].Value) != string(want.Headers[0].Value) {
				t.Errorf("record %d has key %q, headers %q", n, r.Key, r.Headers)
			}
			all = append(all, n)
			return nil
		}, func() []int {
			sorted := slices.Sorted(slices.Values(all))
			all = nil
			return sorted
		}
}

// Everything from a time on is read up to the end, then what comes later, then what was in front; each record once.
func TestLogReader(t *testing.T) {
	for _, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			testLogReader(t, kafkatest.Fake(t, kfake.NumBrokers(3)).ListenAddrs(), codec)
		})
	}
}

func testLogReader(t *testing.T, addrs []string, codec compress.Compression) {
	p := begin(t, addrs, Config{Compression: codec, BatchBytes: 2000})
	topic := "log-" + codec.String()
	for n := range 300 {
		p.offer(timed(topic, n, n))
	}
	p.flush()
	r := logReader(t, addrs)
	var read, total int64
	r.Progress = func(done, all int64) { read, total = done, all }
	take, got := collect(t)
	topics := []string{topic, "absent-" + codec.String()}
	if err := r.Read(t.Context(), topics, at(200), take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromTo(200, 300), got()); diff != "" {
		t.Errorf("since 200 (-want +got):\n%s", diff)
	}
	if read != total || total < 100 || total > 300 {
		t.Errorf("progress: %d of %d", read, total)
	}
	for n := 300; n < 310; n++ {
		p.offer(timed(topic, n, 0)) // later in the log, whatever its time
	}
	p.flush()
	if err := r.Read(t.Context(), topics, at(200), take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromTo(300, 310), got()); diff != "" {
		t.Errorf("what came since (-want +got):\n%s", diff)
	}
	if err := r.ReadEarlier(t.Context(), topics, take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromTo(0, 200), got()); diff != "" {
		t.Errorf("in front (-want +got):\n%s", diff)
	}
	if err := logReader(t, addrs).Read(t.Context(), topics, time.Time{}, take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromTo(0, 310), got()); diff != "" {
		t.Errorf("from the beginning (-want +got):\n%s", diff)
	}
	if err := logReader(t, addrs).Read(t.Context(), topics, at(10_000), take); err != nil || len(got()) > 0 {
		t.Errorf("since a time to come: %v", err)
	}
}

func fromTo(first, last int) []int {
	var all []int
	for n := first; n < last; n++ {
		all = append(all, n)
	}
	return all
}

// A record is handed over whole: nulls, headers in order, place and time.
func TestLogReaderRecord(t *testing.T) {
	t.Parallel()
	addrs := kafkatest.Fake(t, kfake.DefaultNumPartitions(1)).ListenAddrs()
	p := begin(t, addrs, Config{})
	p.offer(&router.Message{Topic: "a", Key: []byte{}, Value: nil, Partition: -1, Time: 5})
	p.offer(&router.Message{Topic: "a", Key: nil, Value: []byte{}, Partition: -1, Time: 7,
		Headers: []router.Header{{Name: "n", Value: nil}, {Name: "n", Value: []byte("v")}}})
	p.flush()
	var got []string
	err := logReader(t, addrs).Read(t.Context(), []string{"a"}, time.Time{}, func(r *Record) error {
		got = append(got, fmt.Sprintf("%s/%d@%d time %d key %#v value %#v headers %q", r.Topic, r.Partition, r.Offset, r.Time, r.Key, r.Value, r.Headers))
		return nil
	})
	want := []string{
		`a/0@0 time 5 key []byte{} value []byte(nil) headers []`,
		`a/0@1 time 7 key []byte(nil) value []byte{} headers [{"n" ""} {"n" "v"}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Behind the fence nothing comes of a producer from before, and Read goes up to it.
func TestLogReaderFence(t *testing.T) {
	t.Parallel()
	testLogReaderFence(t, kafkatest.Fake(t).ListenAddrs(), "orders")
}

func TestRealLogReader(t *testing.T) {
	testLogReader(t, kafkatest.Shared(t, 1).Bootstrap(), compress.Lz4)
	testLogReaderFence(t, kafkatest.Shared(t, 1).Bootstrap(), "fenced")
}

func testLogReaderFence(t *testing.T, addrs []string, topic string) {
	p := begin(t, addrs, Config{})
	for n := range 20 {
		p.offer(timed(topic, n, 0))
	}
	p.flush()
	r := logReader(t, addrs)
	if fenced, err := r.Fence(t.Context(), []string{topic, "absent"}); err != nil || !fenced {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
	take, got := collect(t)
	if err := r.Read(t.Context(), []string{topic}, at(0), take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromTo(0, 20), got()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, part := range r.topics[topic] {
		if part.marker {
			t.Errorf("partition %d was left before its marker", part.id)
		}
	}
	p.offer(timed(topic, 20, 0))
	var over *SessionError
	select {
	case err := <-p.over:
		p.over <- nil
		if !errors.As(err, &over) || !over.Fenced() {
			t.Errorf("the one from before: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the one from before goes on")
	}
	if err := r.Read(t.Context(), []string{topic}, at(0), take); err != nil || len(got()) > 0 {
		t.Errorf("behind the marker: %v", err)
	}
	next := begin(t, addrs, Config{}) // and a producer after it may write
	next.offer(timed(topic, 20, 0))
	next.flush()
	if err := r.Read(t.Context(), []string{topic}, at(0), take); err != nil || !slices.Equal(got(), fromTo(20, 21)) {
		t.Errorf("the next one: %v", err)
	}
}

// The coordinator may leave a partition out without a word; then the marker does not come, and the fence is repeated.
func TestLogReaderRepeatsTheFence(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t)
	p := begin(t, cluster.ListenAddrs(), Config{})
	p.offer(event("orders", 1))
	p.flush()
	ends := 0
	cluster.ControlKey(int16(kmsg.EndTxn), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if ends++; ends > 1 {
			return nil, nil, false
		}
		return request.ResponseKind(), nil, true // all is well, and nothing was written
	})
	r := logReader(t, cluster.ListenAddrs())
	if fenced, err := r.Fence(t.Context(), []string{"orders"}); err != nil || !fenced {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
	take, got := collect(t)
	if err := r.Read(t.Context(), []string{"orders"}, time.Time{}, take); err != nil || !slices.Equal(got(), fromTo(1, 2)) {
		t.Errorf("read: %v", err)
	}
	if log := read(t, cluster.ListenAddrs(), "orders"); ends < 2 || len(log.Controls) < kafkatest.Partitions {
		t.Errorf("%d fences, %d markers", ends, len(log.Controls))
	}
}

// Leaders move and brokers stumble while it reads.
func TestLogReaderTriesAgain(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.NumBrokers(3))
	p := begin(t, cluster.ListenAddrs(), Config{})
	for n := range 100 {
		p.offer(event("orders", n))
	}
	p.flush()
	answers := 0
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if answers++; answers%2 == 0 {
			return nil, nil, false
		}
		asked := request.(*kmsg.FetchRequest).Topics[0]
		part := kmsg.NewFetchResponseTopicPartition()
		part.Partition, part.ErrorCode = asked.Partitions[0].Partition, kerr.NotLeaderForPartition.Code
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = asked.Topic, append(topic.Partitions, part)
		response := request.ResponseKind().(*kmsg.FetchResponse)
		response.Topics = append(response.Topics, topic)
		return response, nil, true
	})
	take, got := collect(t)
	if err := logReader(t, cluster.ListenAddrs()).Read(t.Context(), []string{"orders"}, time.Time{}, take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromTo(0, 100), got()); diff != "" || answers < 4 {
		t.Errorf("%d answers (-want +got):\n%s", answers, diff)
	}
}

// Without the right to read it says so at once.
func TestLogReaderForbidden(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t)
	p := begin(t, cluster.ListenAddrs(), Config{})
	p.offer(event("orders", 1))
	p.flush()
	cluster.ControlKey(int16(kmsg.ListOffsets), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := request.(*kmsg.ListOffsetsRequest).Topics[0]
		part := kmsg.NewListOffsetsResponseTopicPartition()
		part.Partition, part.ErrorCode = asked.Partitions[0].Partition, kerr.TopicAuthorizationFailed.Code
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic, topic.Partitions = asked.Topic, append(topic.Partitions, part)
		response := request.ResponseKind().(*kmsg.ListOffsetsResponse)
		response.Topics = append(response.Topics, topic)
		return response, nil, true
	})
	var forbidden *ForbiddenError
	err := logReader(t, cluster.ListenAddrs()).Read(t.Context(), []string{"orders"}, time.Time{}, func(*Record) error { return nil })
	if !errors.As(err, &forbidden) || forbidden.Topic != "orders" {
		t.Errorf("got %v", err)
	}
}

func TestLogReaderClusterID(t *testing.T) {
	t.Parallel()
	id, err := logReader(t, kafkatest.Fake(t, kfake.ClusterID("here")).ListenAddrs()).ClusterID(t.Context())
	if err != nil || id != "here" {
		t.Errorf("got %q, %v", id, err)
	}
}
