package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/walrelay/walrelay/lsn"
)

// Kind is the kind of a Trouble, fit for a metric's label.
type Kind string

// The kinds of trouble, the gravest first.
const (
	// KindRecordTooLarge: a record is larger than the topic allows. Its partition is halted.
	KindRecordTooLarge Kind = "record_too_large"
	// KindRecordRefused: a broker refuses a record for another reason. Its partition is halted.
	KindRecordRefused Kind = "record_refused"
	// KindTopicForbidden: no right to the topic. It is halted.
	KindTopicForbidden Kind = "topic_forbidden"
	// KindTopicMissing: the topic does not exist and was not created. It is halted.
	KindTopicMissing Kind = "topic_missing"
	// KindUnreachable: no broker answers.
	KindUnreachable Kind = "unreachable"
	// KindSession: the brokers give no producer id.
	KindSession Kind = "session"
	// KindBlocked: a partition gets nothing through, for lack of a leader, of replicas or of an answer.
	KindBlocked Kind = "blocked"
)

// Kinds are all kinds of trouble, the gravest first.
func Kinds() []Kind {
	return []Kind{KindRecordTooLarge, KindRecordRefused, KindTopicForbidden, KindTopicMissing, KindUnreachable, KindSession, KindBlocked}
}

// blockedAfter is how long a partition may fail before that is worth telling: leaders move all the time.
const blockedAfter = 3 * time.Second

// Trouble is why records do not get through.
type Trouble struct {
	Kind Kind
	// Topic is empty, and Partition -1, where it is not about one.
	Topic     string
	Partition int32
	Since     time.Time
	// Event is the identity of the record that halts the partition, and Tx the caller's number that it was appended under;
	// zero where it is not about one record.
	Event lsn.Identity
	Tx    uint64
	// Err is what was seen last.
	Err error
	// Remedy is what a person can do; empty where it heals by itself.
	Remedy string
}

// Halted tells whether it waits for a person.
func (t Trouble) Halted() bool {
	switch t.Kind {
	case KindRecordTooLarge, KindRecordRefused, KindTopicForbidden, KindTopicMissing:
		return true
	}
	return false
}

// OneRecord tells whether the brokers refuse a record, which Withdraw takes back.
func (t Trouble) OneRecord() bool { return t.Kind == KindRecordTooLarge || t.Kind == KindRecordRefused }

// Trouble is the gravest one at this moment, the oldest of its kind.
func (p *Producer) Trouble() (Trouble, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst Trouble
	take := func(t Trouble) {
		if worst.Kind == "" || gravity(t.Kind) < gravity(worst.Kind) ||
			t.Kind == worst.Kind && t.Since.Before(worst.Since) {
			worst = t
		}
	}
	if f := p.cluster.failing; f.err != nil {
		take(Trouble{Kind: KindUnreachable, Partition: -1, Since: f.since, Err: f.err})
	}
	if f := p.session.failing; f.err != nil {
		take(p.sessionTrouble(f))
	}
	for _, t := range p.topics {
		if t.halt != nil {
			take(p.haltTrouble(t.halt, t, -1))
		}
		for _, pt := range t.partitions {
			if pt.halt != nil {
				take(p.haltTrouble(pt.halt, t, pt.id))
			} else if f, ok := pt.blocked(time.Now()); ok {
				take(Trouble{Kind: KindBlocked, Topic: t.name, Partition: pt.id, Since: f.since, Err: f.err})
			}
		}
	}
	return worst, worst.Kind != ""
}

func gravity(k Kind) int { return slices.Index(Kinds(), k) }

var errNoAnswer = errors.New("no answer yet")

// blocked tells whether a partition has been unable to send for a while.
func (pt *partition) blocked(now time.Time) (failure, bool) {
	f := pt.failing
	if f.err == nil && pt.place == ready && pt.broker.failing.err != nil {
		f = pt.broker.failing
	}
	if f.err == nil && pt.place == flying {
		f = failure{since: pt.head.sent, err: errNoAnswer}
	}
	return f, f.err != nil && now.Sub(f.since) >= blockedAfter
}

func (p *Producer) sessionTrouble(f failure) Trouble {
	t := Trouble{Kind: KindSession, Partition: -1, Since: f.since, Err: f.err}
	var broker brokerError
	var forbidden *ForbiddenError
	switch {
	case errors.As(f.err, &forbidden):
		t.Remedy = p.tool("kafka-acls.sh", "--add --allow-principal User:<user> --operation Read --topic "+forbidden.Topic)
	case !errors.As(f.err, &broker):
	case broker.code == codeClusterForbidden:
		t.Remedy = p.tool("kafka-acls.sh", "--add --allow-principal User:<user> --operation Write --topic <topic>")
	case broker.code == codeTransactionalForbidden:
		t.Remedy = p.tool("kafka-acls.sh", "--add --allow-principal User:<user> --operation Write --transactional-id "+p.cfg.TransactionalID)
	}
	return t
}

func (p *Producer) haltTrouble(h *halt, t *topic, partition int32) Trouble {
	trouble := Trouble{Kind: h.kind, Topic: t.name, Partition: partition, Since: h.since, Err: h.err, Event: h.event, Tx: h.tx}
	switch h.kind {
	case KindTopicMissing:
		trouble.Remedy = p.tool("kafka-topics.sh", "--create --topic "+t.name+p.creationFlags())
	case KindTopicForbidden:
		trouble.Remedy = p.tool("kafka-acls.sh", "--add --allow-principal User:<user> --operation Describe --operation Write --topic "+t.name)
	case KindRecordTooLarge:
		trouble.Remedy = p.tool("kafka-configs.sh", fmt.Sprintf(
			"--alter --entity-type topics --entity-name %s --add-config max.message.bytes=%d", t.name, h.size+batchOverhead))
	case KindRecordRefused:
		trouble.Remedy = "change the topic's settings so that it takes the record, or skip the record"
	}
	return trouble
}

// tool is a command line of Kafka's own tools.
func (p *Producer) tool(name, arguments string) string {
	return fmt.Sprintf("%s --bootstrap-server %s %s", name, strings.Join(p.cfg.Brokers, ","), arguments)
}

func (p *Producer) creationFlags() string {
	flags := ""
	if n := p.cfg.Topics.Partitions; n > 0 {
		flags += fmt.Sprintf(" --partitions %d", n)
	}
	if n := p.cfg.Topics.ReplicationFactor; n > 0 {
		flags += fmt.Sprintf(" --replication-factor %d", n)
	}
	return flags
}
