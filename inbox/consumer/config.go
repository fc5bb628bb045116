package consumer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/sasl"
)

// Config of Run. Brokers, Group and Topics have no default; zero means the default elsewhere.
type Config struct {
	// Brokers are the addresses (host:port) asked first.
	Brokers []string
	// Group is the consumer group.
	Group string
	// Topics to read. Reading begins when all of them exist, and a group's first start at the oldest message.
	Topics []string
	// TLS turns TLS on, SASL authenticates. Nil: without.
	TLS  *tls.Config
	SASL sasl.Mechanism

	// IDHeader is the header with the event id. Default "id", the relay's default. A message without it is known by topic,
	// partition and offset.
	IDHeader string
	// Batch is how many messages of a partition are handled together, 1 to 10,000, default 1. A batch that fails is taken
	// apart: its messages are handled one by one.
	Batch int
	// BatchWait is how long a batch that is not full waits for more. Default 5 ms.
	BatchWait time.Duration
	// Concurrency divides each batch by key into so many lanes, which are handled at the same time, 1 to 100, default 1. It
	// needs a Batch of at least as much to be of use.
	Concurrency int

	// Attempts is how often a message is tried before it goes to DeadLetter. Default 0: for ever.
	Attempts int
	// DeadLetter is the topic for messages that could not be handled. Empty: the last failed attempt ends Run.
	DeadLetter string
	// MinBackoff and MaxBackoff bound the pause between two attempts: it doubles, and a random part of it is waited.
	// Default 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration

	// SessionTimeout is how long the group waits for a member that is silent. 6 s to 30 min by the broker's default,
	// default 30 s.
	SessionTimeout time.Duration
	// DrainTimeout is how long the message under way may still take when Run is stopped or the partition goes to another
	// member; then the Handler's context ends. Less than SessionTimeout, default 10 s.
	DrainTimeout time.Duration
	// Retention is how long the inbox remembers the events of ExactlyOnce. 0: for ever.
	Retention time.Duration

	// Logger is told of failures, rebalances and dead letters, never of payloads. Nil: nobody is.
	Logger *slog.Logger
	// Metrics registers the metrics of this consumer. Nil: none.
	Metrics prometheus.Registerer
}

// topicWatch is how often topics are looked at for new partitions.
const topicWatch = 5 * time.Second

func (c Config) withDefaults() Config {
	fill(&c.IDHeader, "id")
	fill(&c.Batch, 1)
	fill(&c.BatchWait, 5*time.Millisecond)
	fill(&c.Concurrency, 1)
	fill(&c.MinBackoff, 100*time.Millisecond)
	fill(&c.MaxBackoff, max(30*time.Second, c.MinBackoff))
	fill(&c.SessionTimeout, 30*time.Second)
	fill(&c.DrainTimeout, min(10*time.Second, c.SessionTimeout/2))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func fill[T comparable](setting *T, value T) {
	var zero T
	if *setting == zero {
		*setting = value
	}
}

func (c Config) check(h Handler) error {
	var problems []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	add(len(c.Brokers) == 0 || c.Group == "" || len(c.Topics) == 0, "Brokers, Group and Topics are needed")
	add(h.handle == nil, "the Handler is empty: make it with ExactlyOnce, AtLeastOnce or AtMostOnce")
	add(c.Batch < 1 || c.Batch > 10_000, "Batch %d: want 1 to 10,000", c.Batch)
	add(c.Concurrency < 1 || c.Concurrency > 100, "Concurrency %d: want 1 to 100", c.Concurrency)
	add(h.inOrder && c.Concurrency > 1, "Concurrency %d: a Handler that remembers positions needs 1", c.Concurrency)
	add(c.Attempts < 0, "Attempts %d: want 0 (for ever) or more", c.Attempts)
	add(c.DeadLetter != "" && c.Attempts == 0 && !h.early, "DeadLetter %s: set Attempts too, since messages are tried for ever otherwise", c.DeadLetter)
	add(c.MinBackoff < time.Millisecond || c.MaxBackoff < c.MinBackoff, "backoff %v to %v: want 1 ms or more, in order", c.MinBackoff, c.MaxBackoff)
	add(c.DrainTimeout >= c.SessionTimeout, "DrainTimeout %v: want less than SessionTimeout (%v)", c.DrainTimeout, c.SessionTimeout)
	add(c.Retention != 0 && h.forget == nil, "Retention %v: this Handler has no inbox", c.Retention)
	add(c.Retention < 0, "Retention %v: want 0 (for ever) or more", c.Retention)
	if len(problems) > 0 {
		return fmt.Errorf("consumer %s: %w", c.Group, errors.Join(problems...))
	}
	return nil
}
