package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// request sends one request through a client of its own: one that lives longer would remember brokers that are gone.
func request[R kmsg.Response](ctx context.Context, bootstrap []string, req interface {
	kmsg.Request
	RequestWith(context.Context, kmsg.Requestor) (R, error)
}) (reply R, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return reply, err
	}
	defer client.Close()
	return req.RequestWith(ctx, client)
}

// metadata asks about topics, or about the cluster alone when there are none.
func metadata(ctx context.Context, bootstrap []string, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return request(ctx, bootstrap, req)
}

// Topics lists the topics of a cluster, without internal ones, in order of their names.
func Topics(ctx context.Context, bootstrap []string) ([]string, error) {
	reply, err := request(ctx, bootstrap, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var names []string
	for _, topic := range reply.Topics {
		if !topic.IsInternal {
			names = append(names, *topic.Topic)
		}
	}
	slices.Sort(names)
	return names, nil
}

// CreateTopic creates a topic and waits until each broker of bootstrap knows a leader for all its partitions. A
// partition or replica number of -1 is the cluster's default. config may be nil.
func CreateTopic(ctx context.Context, bootstrap []string, name string, partitions, replicas int, config map[string]string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), int16(replicas)
	for key, value := range config {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic)
	reply, err := request(ctx, bootstrap, req)
	if err == nil {
		err = kerr.ErrorForCode(reply.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	for _, broker := range bootstrap {
		err := awaitTopic(ctx, []string{broker}, name, func(t *kmsg.MetadataResponseTopic) error {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	return nil
}

// DeleteTopic deletes a topic and waits until each broker of bootstrap has forgotten it.
func DeleteTopic(ctx context.Context, bootstrap []string, name string) error {
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{name}
	reply, err := request(ctx, bootstrap, req)
	if err == nil {
		err = kerr.ErrorForCode(reply.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	for _, broker := range bootstrap {
		err := await(ctx, func() error {
			reply, err := metadata(ctx, []string{broker}, name)
			if err != nil {
				return err
			}
			if err := kerr.ErrorForCode(reply.Topics[0].ErrorCode); !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("broker %s still has it (%v)", broker, err)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
	}
	return nil
}

// awaitTopic polls the metadata of a topic until check returns nil.
func awaitTopic(ctx context.Context, bootstrap []string, name string, check func(*kmsg.MetadataResponseTopic) error) error {
	return await(ctx, func() error {
		reply, err := metadata(ctx, bootstrap, name)
		if err != nil {
			return err
		}
		topic := &reply.Topics[0]
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return err
		}
		return check(topic)
	})
}

// await polls until done returns nil.
func await(ctx context.Context, done func() error) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %v)", context.Cause(ctx), err)
		}
	}
}

// answering is the addresses of the nodes that ought to answer.
func (c *Cluster) answering() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addresses []string
	for _, n := range c.nodes {
		if n.answers {
			addresses = append(addresses, n.address("PLAINTEXT"))
		}
	}
	return addresses
}

// CreateTopic creates a topic and waits until each node knows it, with a leader for all its partitions. A partition or
// replica number of -1 is the cluster's default. config may be nil.
func (c *Cluster) CreateTopic(ctx context.Context, name string, partitions, replicas int, config map[string]string) error {
	return CreateTopic(ctx, c.answering(), name, partitions, replicas, config)
}

// DeleteTopic deletes a topic and waits until each node has forgotten it.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	return DeleteTopic(ctx, c.answering(), name)
}

// partition finds a partition in the metadata of its topic.
func partition(topic *kmsg.MetadataResponseTopic, number int32) (*kmsg.MetadataResponseTopicPartition, error) {
	for i := range topic.Partitions {
		if topic.Partitions[i].Partition == number {
			return &topic.Partitions[i], nil
		}
	}
	return nil, kerr.UnknownTopicOrPartition
}

// Leader is the node that leads a partition. While there is none, it waits.
func (c *Cluster) Leader(ctx context.Context, topic string, number int32) (id int32, err error) {
	err = awaitTopic(ctx, c.answering(), topic, func(t *kmsg.MetadataResponseTopic) error {
		p, err := partition(t, number)
		if err != nil {
			return err
		}
		id = p.Leader
		return kerr.ErrorForCode(p.ErrorCode)
	})
	if err != nil {
		return 0, fmt.Errorf("find the leader of %s/%d: %w", topic, number, err)
	}
	return id, nil
}

// AwaitInSync waits until all replicas of all partitions of a topic are in sync.
func (c *Cluster) AwaitInSync(ctx context.Context, topic string) error {
	err := awaitTopic(ctx, c.answering(), topic, func(t *kmsg.MetadataResponseTopic) error {
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) {
				return fmt.Errorf("partition %d: %d of %d in sync", p.Partition, len(p.ISR), len(p.Replicas))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait until the replicas of %s are in sync: %w", topic, err)
	}
	return nil
}

// MoveLeader makes a node, which must hold a replica in sync, the leader of a partition, and waits until it is.
func (c *Cluster) MoveLeader(ctx context.Context, topic string, number, id int32) error {
	if err := c.prefer(ctx, topic, number, id); err != nil {
		return fmt.Errorf("move the leader of %s/%d to node %d: %w", topic, number, id, err)
	}
	req := kmsg.NewPtrElectLeadersRequest() // election type 0: the preferred replica
	election := kmsg.NewElectLeadersRequestTopic()
	election.Topic, election.Partitions = topic, []int32{number}
	req.Topics = append(req.Topics, election)
	err := await(ctx, func() error {
		reply, err := request(ctx, c.answering(), req)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(reply.ErrorCode); err != nil {
			return err
		}
		leader, err := c.Leader(ctx, topic, number)
		if err == nil && leader != id {
			err = fmt.Errorf("node %d leads", leader)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("move the leader of %s/%d to node %d: %w", topic, number, id, err)
	}
	return nil
}

// prefer puts a node at the head of a partition's list of replicas: Kafka prefers the first as leader.
func (c *Cluster) prefer(ctx context.Context, topic string, number, id int32) error {
	reply, err := metadata(ctx, c.answering(), topic)
	if err != nil {
		return err
	}
	p, err := partition(&reply.Topics[0], number)
	if err != nil {
		return err
	}
	if !slices.Contains(p.Replicas, id) {
		return fmt.Errorf("its replicas are %s", strings.Trim(fmt.Sprint(p.Replicas), "[]"))
	}
	order := append([]int32{id}, slices.DeleteFunc(slices.Clone(p.Replicas), func(r int32) bool { return r == id })...)
	assignment := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	assignment.Partition, assignment.Replicas = number, order
	change := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	change.Topic, change.Partitions = topic, append(change.Partitions, assignment)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Topics = append(req.Topics, change)
	altered, err := request(ctx, c.answering(), req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(altered.ErrorCode); err != nil {
		return err
	}
	return kerr.ErrorForCode(altered.Topics[0].Partitions[0].ErrorCode)
}
