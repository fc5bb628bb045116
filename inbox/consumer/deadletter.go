package consumer

import (
	"context"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func newLetters(cfg Config, transport *kafka.Transport) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(cfg.Brokers...), Topic: cfg.DeadLetter, Transport: transport, RequiredAcks: kafka.RequireAll,
		Balancer: kafka.Murmur2Balancer{Consistent: true}, BatchSize: 1, BatchTimeout: time.Millisecond, AllowAutoTopicCreation: true,
	}
}

// bury writes a message into the dead-letter topic as it is, with headers that say where it comes from and why, and tries
// until that is acknowledged. It reports false when it was stopped before.
func (p *partition) bury(stop context.Context, m *Message, attempts int, cause error) bool {
	reason := cause.Error()
	if len(reason) > 1000 {
		reason = reason[:1000]
	}
	letter := kafka.Message{Key: m.Key, Value: m.Value, Headers: append(m.Headers[:len(m.Headers):len(m.Headers)],
		kafka.Header{Key: "consumer.group", Value: []byte(p.cfg.Group)},
		kafka.Header{Key: "consumer.topic", Value: []byte(m.Topic)},
		kafka.Header{Key: "consumer.partition", Value: []byte(strconv.Itoa(m.Partition))},
		kafka.Header{Key: "consumer.offset", Value: []byte(strconv.FormatInt(m.Offset, 10))},
		kafka.Header{Key: "consumer.attempts", Value: []byte(strconv.Itoa(attempts))},
		kafka.Header{Key: "consumer.error", Value: []byte(reason)})}
	for try := 1; ; try++ {
		err := p.letters.WriteMessages(stop, letter)
		if err == nil {
			p.metrics.messages.WithLabelValues(p.topic, "dead_lettered").Inc()
			return true
		}
		if stop.Err() != nil {
			return false
		}
		p.report("write dead letter", err)
		if !pause(stop, p.cfg.backoff(try)) {
			return false
		}
	}
}
