package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/sasl"
)

// Config is everything a Producer needs. Only Brokers has no default. Zero means the default.
type Config struct {
	// Brokers are the addresses (host:port) asked first. The others are learned from them.
	Brokers []string
	// ClientID names this client in the brokers' logs and quotas. Default "walrelay".
	ClientID string
	// TLS turns TLS on. It is asked before each connection, so that renewed certificates are used. An empty ServerName means
	// the broker's host. Nil: no TLS.
	TLS func() (*tls.Config, error)
	// SASL authenticates every connection. Nil: no SASL.
	SASL sasl.Mechanism
	// Dial opens connections. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Compression of batches: compress.None (default), Gzip, Snappy, Lz4 or Zstd.
	Compression compress.Compression
	// BatchBytes closes a batch at this size before compression. 1 KiB to 1 MiB, default 900,000: just below the
	// broker's default message.max.bytes. A partition whose broker allows less goes lower by itself.
	BatchBytes int
	// Linger holds a record back for so long, so that batches grow where thousands of topics get a record now and then.
	// 0 to 1 s, default 0: batches grow by themselves while a request is under way.
	Linger time.Duration
	// MaxInFlightBytes bounds the encoded records that are not acknowledged. At least 64 KiB, default 4 MiB: more
	// gains nothing on a network that answers in some tens of milliseconds, and costs memory. A single
	// record above it passes when nothing else is in flight.
	MaxInFlightBytes int
	// MaxInFlightRecords bounds their number. At least 1, default 50,000.
	MaxInFlightRecords int
	// MaxRecordBytes is the largest record that a request can carry; a larger one is a *PoisonError. 1 KiB to 1 GiB,
	// default 100 MiB less 64 KiB, since a broker drops the connection at socket.request.max.bytes (100 MiB).
	MaxRecordBytes int

	// Topics tells what to do about topics that do not exist.
	Topics TopicConfig
	// TopicWait is how long a topic may be missing before it counts as halted. 100 ms to 1 min, default 5 s.
	TopicWait time.Duration
	// HaltRetry is how often a halted topic or record is tried again. 100 ms to 1 h, default 30 s.
	HaltRetry time.Duration

	// DialTimeout bounds connecting, TLS and SASL together. 100 ms to 1 min, default 5 s.
	DialTimeout time.Duration
	// RequestTimeout bounds the wait for one answer; then the connection is closed and the batches are sent again. The
	// broker waits half of it for its followers. 1 s to 5 min, default 30 s.
	RequestTimeout time.Duration
	// MetadataMaxAge is how often metadata is asked for when nothing is wrong, which is how new partitions are found.
	// 100 ms to 1 h, default 5 min.
	MetadataMaxAge time.Duration

	// TransactionalID names this producer across restarts, so that the brokers refuse what an earlier one with the same
	// name still sends. Batches stay plain: consumers need no read_committed. Empty: nobody is refused.
	TransactionalID string
	// Resume tells what an earlier producer may have published. Nil: nothing is looked up. It needs TransactionalID.
	Resume *Resume
	// ResumePolicy says what the lack of a right to that means. Default ResumePrefer.
	ResumePolicy ResumePolicy

	// OnBatch is told of every acknowledged batch, from several goroutines. It must not block.
	OnBatch func(BatchAck)
}

// ResumePolicy is how much it matters that each event is published once after an unclean stop.
type ResumePolicy string

// The policies.
const (
	// ResumePrefer publishes some events twice where there is no right to look.
	ResumePrefer ResumePolicy = "prefer"
	// ResumeRequire publishes nothing then.
	ResumeRequire ResumePolicy = "require"
	// ResumeOff is for those who set neither Resume nor TransactionalID.
	ResumeOff ResumePolicy = "off"
)

// TopicConfig tells how a topic that does not exist comes to be.
type TopicConfig struct {
	// Create makes missing topics. Otherwise the broker may (auto.create.topics.enable), else the topic is halted.
	Create bool
	// Partitions of a created topic. -1 or 0: the broker's num.partitions.
	Partitions int32
	// ReplicationFactor of a created topic. -1 or 0: the broker's default.replication.factor.
	ReplicationFactor int16
	// Config are topic settings, such as retention.ms.
	Config map[string]string
}

// Defaults of Config.
const (
	DefaultClientID           = "walrelay"
	DefaultBatchBytes         = 900_000
	DefaultMaxInFlightBytes   = 4 << 20
	DefaultMaxInFlightRecords = 50_000
	DefaultMaxRecordBytes     = 100<<20 - 64<<10
	DefaultTopicWait          = 5 * time.Second
	DefaultHaltRetry          = 30 * time.Second
	DefaultDialTimeout        = 5 * time.Second
	DefaultRequestTimeout     = 30 * time.Second
	DefaultMetadataMaxAge     = 5 * time.Minute
)

// withDefaults is the configuration with its zero values replaced.
func (c Config) withDefaults() Config {
	setDefault(&c.ClientID, DefaultClientID)
	setDefault(&c.BatchBytes, DefaultBatchBytes)
	setDefault(&c.MaxInFlightBytes, DefaultMaxInFlightBytes)
	setDefault(&c.MaxInFlightRecords, DefaultMaxInFlightRecords)
	setDefault(&c.MaxRecordBytes, DefaultMaxRecordBytes)
	setDefault(&c.TopicWait, DefaultTopicWait)
	setDefault(&c.HaltRetry, DefaultHaltRetry)
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.RequestTimeout, DefaultRequestTimeout)
	setDefault(&c.MetadataMaxAge, DefaultMetadataMaxAge)
	setDefault(&c.Topics.Partitions, -1)
	setDefault(&c.Topics.ReplicationFactor, -1)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns every problem of the configuration, joined, or nil.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	if len(c.Brokers) == 0 {
		problems = append(problems, errors.New("kafka brokers: none given; want at least one host:port"))
	}
	for _, broker := range c.Brokers {
		if _, _, err := net.SplitHostPort(broker); err != nil {
			problems = append(problems, fmt.Errorf("kafka broker %q: want host:port", broker))
		}
	}
	if c.Compression != compress.None && c.Compression.Codec() == nil {
		problems = append(problems, fmt.Errorf("kafka compression %d: want none, gzip, snappy, lz4 or zstd", c.Compression))
	}
	if c.Topics.Partitions < -1 {
		problems = append(problems, fmt.Errorf("kafka topic partitions %d: want a positive number, or -1", c.Topics.Partitions))
	}
	if c.Topics.ReplicationFactor < -1 {
		problems = append(problems, fmt.Errorf("kafka topic replication factor %d: want a positive number, or -1", c.Topics.ReplicationFactor))
	}
	return errors.Join(append(problems, c.outOfBounds()...)...)
}

func (c Config) outOfBounds() []error {
	var problems []error
	size := func(name string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("kafka %s %d: want %d to %d", name, value, low, high))
		}
	}
	period := func(name string, value, low, high time.Duration) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("kafka %s %v: want %v to %v", name, value, low, high))
		}
	}
	size("batch bytes", c.BatchBytes, 1<<10, 1<<20)
	size("in-flight bytes", c.MaxInFlightBytes, 64<<10, 1<<30)
	size("in-flight records", c.MaxInFlightRecords, 1, 10_000_000)
	size("record bytes", c.MaxRecordBytes, 1<<10, 1<<30)
	period("linger", c.Linger, 0, time.Second)
	period("topic wait", c.TopicWait, 100*time.Millisecond, time.Minute)
	period("halt retry", c.HaltRetry, 100*time.Millisecond, time.Hour)
	period("dial timeout", c.DialTimeout, 100*time.Millisecond, time.Minute)
	period("request timeout", c.RequestTimeout, time.Second, 5*time.Minute)
	period("metadata age", c.MetadataMaxAge, 100*time.Millisecond, time.Hour)
	return problems
}
