package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/router"
)

// outbox is a message as an outbox row gives: 300 bytes of value, a key, an id and a position.
func outbox(topic string) (*router.Message, [][]byte) {
	m := &router.Message{Topic: topic, Value: make([]byte, 300), Partition: -1, Time: 1.7e12, Headers: []router.Header{
		{Name: "id", Value: []byte("550e8400-e29b-41d4-a716-446655440000")},
		{Name: "walrelay.lsn", Value: []byte("0a1b2c3d:16/B374D848:1700000000000000:42")},
	}}
	copy(m.Value, `{"order":`)
	for i := range m.Value[9:] {
		m.Value[9+i] = "0123456789abcdefghijklmnop \",:{}"[(i*i+i/7)%32]
	}
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "customer-%d", i)
	}
	return m, keys
}

// BenchmarkAppend is the reader's part, with the lane's bookkeeping and stamping but without a network.
func BenchmarkAppend(b *testing.B) {
	for _, partitions := range []int{1, 6, 100} {
		b.Run(fmt.Sprintf("%d partitions", partitions), func(b *testing.B) {
			d := newDesk(b, Config{}, partitions)
			m, keys := outbox("orders")
			var acks []Ack
			b.ReportAllocs()
			b.SetBytes(int64(payloadSize(m)))
			i, tx, before := 0, uint64(0), cpu(b)
			for b.Loop() {
				m.Key = keys[i%len(keys)]
				i++
				if i%100 == 0 {
					tx++
				}
				if status, err := d.Append(m, tx); err != nil {
					b.Fatal(err)
				} else if status == Full {
					d.acknowledge(b)
					acks = d.Acked(acks[:0])
				}
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(i), "cpu-ns/op")
		})
	}
}

// BenchmarkProduce publishes to a broker that only acknowledges: the producer's whole cost, sockets included.
func BenchmarkProduce(b *testing.B) {
	for _, codec := range []compress.Compression{compress.None, compress.Lz4, compress.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			flood(b, Config{Brokers: []string{nullBroker(b, 6)}, Compression: codec}, "orders")
		})
	}
}

// BenchmarkKafka publishes to Apache Kafka on the same machine.
func BenchmarkKafka(b *testing.B) {
	cluster := kafkatest.Shared(b, 1)
	for _, codec := range []compress.Compression{compress.None, compress.Lz4} {
		b.Run(codec.String(), func(b *testing.B) {
			topic := fmt.Sprintf("bench-%s-%d", codec, time.Now().UnixNano())
			flood(b, Config{Brokers: cluster.Bootstrap(), Compression: codec, Topics: TopicConfig{Create: true, Partitions: 6}}, topic)
		})
	}
}

func flood(b *testing.B, cfg Config, topic string) {
	defer debug.FreeOSMemory()
	p := New(cfg, nil)
	ctx, cancel := context.WithCancel(b.Context())
	over := make(chan error, 1)
	go func() { over <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			b.Error(err)
		}
	}()
	m, keys := outbox(topic)
	var acks []Ack
	send := func(i int) {
		m.Key = keys[i%len(keys)]
		for {
			status, err := p.Append(m, uint64(i/100))
			if i%100 == 99 || status != Appended {
				p.Send()
			}
			if err != nil {
				b.Fatal(err)
			}
			if status == Appended {
				return
			}
			<-p.Notify()
			acks = p.Acked(acks[:0])
		}
	}
	send(0)
	b.ReportAllocs()
	b.SetBytes(int64(payloadSize(m)))
	before := cpu(b)
	i := 0
	for b.Loop() {
		i++
		send(i)
	}
	for !p.Flushed() {
		<-p.Notify()
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(i), "cpu-ns/op")
	b.ReportMetric(float64(i)/float64(p.Stats().Batches), "records/batch")
}

// cpu is the time that this process has computed, the null broker included.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nullBroker leads every partition, acknowledges every batch, and looks at none.
func nullBroker(b *testing.B, partitions int) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var conns sync.WaitGroup
	b.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { acknowledgeAll(conn, partitions) })
		}
	})
	return listener.Addr().String()
}

func acknowledgeAll(conn net.Conn, partitions int) {
	defer func() { _ = conn.Close() }()
	var buf []byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(conn, buf[:n]); err != nil {
			return
		}
		if _, err := conn.Write(nullAnswer(buf[:n], conn.LocalAddr().(*net.TCPAddr).Port, partitions)); err != nil {
			return
		}
	}
}

// nullAnswer answers one request.
func nullAnswer(request []byte, port, partitions int) []byte {
	r := kbin.Reader{Src: request}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString()
	asked := kmsg.RequestForKey(key)
	asked.SetVersion(version)
	if asked.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := asked.ReadFrom(r.Src); err != nil {
		panic(err)
	}
	response := asked.ResponseKind()
	switch given := response.(type) {
	case *kmsg.ApiVersionsResponse:
		for key, version := range map[int16]int16{0: 8, 3: 8, 18: 0, 22: 4} {
			given.ApiKeys = append(given.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: version})
		}
	case *kmsg.MetadataResponse:
		given.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "127.0.0.1", Port: int32(port)}}
		for _, t := range asked.(*kmsg.MetadataRequest).Topics {
			topic := kmsg.MetadataResponseTopic{Topic: t.Topic}
			for i := range int32(partitions) {
				topic.Partitions = append(topic.Partitions, kmsg.MetadataResponseTopicPartition{Partition: i, Leader: 1})
			}
			given.Topics = append(given.Topics, topic)
		}
	case *kmsg.ProduceResponse:
		for _, t := range asked.(*kmsg.ProduceRequest).Topics {
			topic := kmsg.ProduceResponseTopic{Topic: t.Topic}
			for i := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.ProduceResponseTopicPartition{Partition: t.Partitions[i].Partition})
			}
			given.Topics = append(given.Topics, topic)
		}
	}
	head := make([]byte, 8, 64)
	binary.BigEndian.PutUint32(head[4:], uint32(correlation))
	if response.IsFlexible() && key != 18 {
		head = append(head, 0)
	}
	answer := response.AppendTo(head)
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	return answer
}
