package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol/metadata"
	"go.uber.org/zap"
)

// backwardsGrace is how long metadata may be older than what is known before the topic counts as another one. A broker
// that lags behind tells the past for a moment; a topic that was deleted and made again tells it for good.
const backwardsGrace = 10 * time.Second

// cluster is what metadata tells of the cluster, and when to ask next. Guarded by Producer.mu, but for wake.
type cluster struct {
	id         string
	controller int32
	brokers    map[int32]*broker
	asked      time.Time     // when everything was asked for last
	askAt      time.Time     // when to ask for everything next
	asking     []*topic      // topics to ask for
	avoid      string        // a broker that should not be asked
	failing    failure       // no broker answers
	wake       chan struct{} // wakes the metadata goroutine; capacity 1
}

func newCluster() cluster {
	return cluster{controller: -1, brokers: map[int32]*broker{}, wake: make(chan struct{}, 1)}
}

func (c *cluster) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// addresses are the brokers that can be asked: the configured ones and those they named.
func (p *Producer) addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	addrs := slices.Clone(p.cfg.Brokers)
	for _, b := range p.cluster.brokers {
		if !slices.Contains(addrs, b.addr) {
			addrs = append(addrs, b.addr)
		}
	}
	return addrs
}

// learn takes in an answer about the topics names.
func (p *Producer) learn(answer *metadata.Response, names []string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.MetadataRefreshes++
	if err := p.learnBrokers(answer); err != nil {
		return err
	}
	told := map[string]*metadata.ResponseTopic{}
	for i := range answer.Topics {
		told[answer.Topics[i].Name] = &answer.Topics[i]
	}
	absent := &metadata.ResponseTopic{ErrorCode: codeUnknownTopic}
	for _, name := range names {
		t, news := p.topics[name], told[name]
		if news == nil {
			news = absent
		}
		t.asked = now
		if err := p.learnTopic(t, news, now); err != nil {
			return err
		}
	}
	return nil
}

func (p *Producer) learnBrokers(answer *metadata.Response) error {
	if p.cluster.id == "" {
		p.cluster.id = answer.ClusterID
		p.log.Info("kafka cluster found", zap.String("cluster_id", answer.ClusterID), zap.Int("brokers", len(answer.Brokers)))
		p.notify()
	}
	if answer.ClusterID != p.cluster.id {
		return &SessionError{Partition: -1, Reason: fmt.Sprintf(
			"the brokers belong to cluster %s now, before to %s", answer.ClusterID, p.cluster.id)}
	}
	p.cluster.controller = answer.ControllerID
	for _, news := range answer.Brokers {
		b := p.cluster.brokers[news.NodeID]
		if b == nil {
			b = newBroker(news.NodeID)
			p.cluster.brokers[news.NodeID] = b
		}
		b.addr = net.JoinHostPort(news.Host, strconv.Itoa(int(news.Port)))
	}
	return nil
}

func (p *Producer) learnTopic(t *topic, news *metadata.ResponseTopic, now time.Time) error {
	switch news.ErrorCode {
	case codeNone:
		return p.learnPartitions(t, news.Partitions, now)
	case codeUnknownTopic:
		return p.topicMissing(t, now)
	case codeTopicForbidden, codeInvalidTopic:
		p.haltTopic(t, KindTopicForbidden, news.ErrorCode, brokerError{code: news.ErrorCode}, now)
		p.ask(t, now.Add(p.cfg.HaltRetry))
	default: // being created, or the broker has not caught up
		p.ask(t, now.Add(minBackoff))
	}
	return nil
}

// topicMissing waits for a topic: it may be created by the broker or by us at this moment. After a while it is halted.
// One that was there before is another one when it comes again, which only a new session can tell.
func (p *Producer) topicMissing(t *topic, now time.Time) error {
	if t.missing.IsZero() {
		t.missing = now
	}
	err := brokerError{code: codeUnknownTopic}
	switch waited := now.Sub(t.missing) >= p.cfg.TopicWait; {
	case !waited:
		p.ask(t, now.Add(minBackoff))
	case len(t.partitions) > 0:
		return &SessionError{Topic: t.name, Partition: -1, Code: codeUnknownTopic, Reason: "the topic was deleted"}
	default:
		p.haltTopic(t, KindTopicMissing, codeUnknownTopic, errors.Join(err, t.creation), now)
		p.ask(t, now.Add(p.cfg.HaltRetry))
	}
	return nil
}

func (p *Producer) learnPartitions(t *topic, news []metadata.ResponsePartition, now time.Time) error {
	count := len(news)
	if count == 0 || slices.ContainsFunc(news, func(n metadata.ResponsePartition) bool {
		return n.PartitionIndex < 0 || int(n.PartitionIndex) >= count
	}) {
		p.ask(t, now.Add(minBackoff)) // a broker that starts may know only some of them
		return nil
	}
	if count < max(len(t.partitions), t.grown) {
		return p.backwards(t, fmt.Sprintf("the topic has %d partitions now, before %d", count, len(t.partitions)), now)
	}
	if slices.ContainsFunc(news, t.isPast) {
		return p.backwards(t, "a leader epoch went back: the topic was deleted and made again", now)
	}
	t.missing, t.backwards, t.creation = time.Time{}, time.Time{}, nil
	switch {
	case len(t.partitions) == 0:
		p.addPartitions(t, count)
		p.admit(t)
	case count > max(len(t.partitions), t.grown):
		p.grow(t, count)
	}
	p.healTopic(t)
	for i := range news {
		if int(news[i].PartitionIndex) < len(t.partitions) {
			p.learnLeader(t.partitions[news[i].PartitionIndex], &news[i], now)
		}
	}
	return nil
}

// isPast tells whether news of a partition is older than what is known (KIP-320).
func (t *topic) isPast(news metadata.ResponsePartition) bool {
	i := int(news.PartitionIndex)
	return i < len(t.partitions) && news.LeaderEpoch < t.partitions[i].leaderEpoch
}

func (p *Producer) learnLeader(pt *partition, news *metadata.ResponsePartition, now time.Time) {
	id := news.LeaderID
	if news.ErrorCode != codeNone && news.ErrorCode != codeReplicaNotAvailable {
		id = -1
	}
	leader := p.cluster.brokers[id]
	p.lead(pt, leader, id, news.LeaderEpoch, now)
	if leader == nil && pt.head != nil {
		p.ask(pt.topic, now.Add(leaderlessInterval))
	}
}

// backwards is called with metadata older than what is known. After a while, or at once where the topic was missing in
// between, it is another topic of the same name.
func (p *Producer) backwards(t *topic, what string, now time.Time) error {
	if t.backwards.IsZero() {
		t.backwards = now
	}
	if !t.missing.IsZero() || now.Sub(t.backwards) >= backwardsGrace {
		return &SessionError{Topic: t.name, Partition: -1, Reason: what}
	}
	p.ask(t, now.Add(maxBackoff))
	return nil
}

func isSessionError(err error) bool {
	var over *SessionError
	return errors.As(err, &over)
}
