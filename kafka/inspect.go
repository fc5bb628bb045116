package kafka

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Inspection is what a cluster says of itself to a visitor.
type Inspection struct {
	ClusterID string
	// Brokers are the addresses of all brokers, as they advertise themselves.
	Brokers []string
	// Topics are those that were asked for and exist, by name.
	Topics []InspectedTopic
	// Transactional is why the transactional id may not be used; nil: it may.
	Transactional error
}

// InspectedTopic is one topic.
type InspectedTopic struct {
	Name       string
	Partitions int
	// Replicas is the smallest number of replicas of a partition, InSync of those that are in sync.
	Replicas, InSync int
	// Settings are max.message.bytes, min.insync.replicas, cleanup.policy and message.timestamp.type. Nil: no right to see
	// them (DescribeConfigs).
	Settings map[string]string
	// Forbidden: no right to the topic.
	Forbidden bool
}

// topicSettings are those that matter to a producer.
var topicSettings = []string{"max.message.bytes", "min.insync.replicas", "cleanup.policy", "message.timestamp.type"}

const topicResource = 2 // DescribeConfigs' type of a topic

// Inspect looks at a cluster and changes nothing: who answers, and of the topics that want accepts, how they are set. Of the
// configuration it uses what is about connections, and the transactional id.
func Inspect(ctx context.Context, cfg Config, want func(topic string) bool) (*Inspection, error) {
	cfg = cfg.withDefaults()
	asking := client{cfg: &cfg}
	defer asking.close()
	answer, err := asking.call(ctx, cfg.Brokers, &metadata.Request{}) // nil: all topics
	if err != nil {
		return nil, fmt.Errorf("ask Kafka for its topics: %w", err)
	}
	found := answer.(*metadata.Response)
	i := &Inspection{ClusterID: found.ClusterID}
	for _, b := range found.Brokers {
		i.Brokers = append(i.Brokers, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	for _, t := range found.Topics {
		if want(t.Name) && (t.ErrorCode == codeNone || t.ErrorCode == codeTopicForbidden) {
			i.Topics = append(i.Topics, inspected(t))
		}
	}
	slices.SortFunc(i.Topics, func(a, b InspectedTopic) int { return cmp.Compare(a.Name, b.Name) })
	if err := i.settings(ctx, &asking, cfg.Brokers); err != nil {
		return nil, err
	}
	if cfg.TransactionalID != "" {
		i.Transactional, err = mayUse(ctx, &asking, cfg)
	}
	return i, err
}

func inspected(t metadata.ResponseTopic) InspectedTopic {
	topic := InspectedTopic{Name: t.Name, Partitions: len(t.Partitions), Forbidden: t.ErrorCode == codeTopicForbidden}
	for n, p := range t.Partitions {
		if n == 0 {
			topic.Replicas, topic.InSync = len(p.ReplicaNodes), len(p.IsrNodes)
		}
		topic.Replicas, topic.InSync = min(topic.Replicas, len(p.ReplicaNodes)), min(topic.InSync, len(p.IsrNodes))
	}
	return topic
}

// settings asks for the topics' settings, as far as that is allowed.
func (i *Inspection) settings(ctx context.Context, asking *client, addrs []string) error {
	request := &describeconfigs.Request{}
	for _, t := range i.Topics {
		request.Resources = append(request.Resources,
			describeconfigs.RequestResource{ResourceType: topicResource, ResourceName: t.Name, ConfigNames: topicSettings})
	}
	if len(request.Resources) == 0 {
		return nil
	}
	answer, err := asking.call(ctx, addrs, request)
	if err != nil {
		return fmt.Errorf("ask Kafka for the settings of topics: %w", err)
	}
	for _, resource := range answer.(*describeconfigs.Response).Resources {
		at := slices.IndexFunc(i.Topics, func(t InspectedTopic) bool { return t.Name == resource.ResourceName })
		if at < 0 || resource.ErrorCode != codeNone {
			continue
		}
		i.Topics[at].Settings = map[string]string{}
		for _, entry := range resource.ConfigEntries {
			i.Topics[at].Settings[entry.ConfigName] = strings.TrimSpace(entry.ConfigValue)
		}
	}
	return nil
}

// mayUse asks who coordinates the transactional id, which needs a right to it and, unlike its use, disturbs nobody.
func mayUse(ctx context.Context, asking *client, cfg Config) (refused, err error) {
	answer, err := asking.call(ctx, cfg.Brokers, &findcoordinator.Request{Key: cfg.TransactionalID, KeyType: transactionKey})
	if err != nil {
		return nil, fmt.Errorf("ask Kafka for the coordinator of %s: %w", cfg.TransactionalID, err)
	}
	found := answer.(*findcoordinator.Response)
	if found.ErrorCode == codeTransactionalForbidden || found.ErrorCode == codeClusterForbidden {
		return brokerError{found.ErrorCode, found.ErrorMessage}, nil
	}
	return nil, nil
}
