package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/createtopics"
	"go.uber.org/zap"
)

// createWait is how long the controller may take to create topics; metadata waits for it.
const createWait = 2 * time.Second

// createMissing creates those of the topics that turned out to be missing.
func (p *Producer) createMissing(ctx context.Context, names []string) error {
	controller, missing := p.toCreate(names)
	if len(missing) == 0 {
		return nil
	}
	request := &createtopics.Request{TimeoutMs: int32(createWait.Milliseconds())}
	for _, name := range missing {
		request.Topics = append(request.Topics, p.newTopic(name))
	}
	answer, err := callBroker(ctx, &p.cfg, controller, request, 2*createWait)
	if err != nil {
		p.notCreated(missing, err)
		return nil // the topics are asked for again, and then created again
	}
	p.created(answer.(*createtopics.Response), time.Now())
	return nil
}

// toCreate is the controller's address and those of the topics that do not exist.
func (p *Producer) toCreate(names []string) (string, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	controller := p.cluster.brokers[p.cluster.controller]
	if controller == nil {
		return "", nil
	}
	return controller.addr, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return p.topics[name].missing.IsZero()
	})
}

func (p *Producer) newTopic(name string) createtopics.RequestTopic {
	topic := createtopics.RequestTopic{
		Name:              name,
		NumPartitions:     p.cfg.Topics.Partitions,
		ReplicationFactor: p.cfg.Topics.ReplicationFactor,
	}
	for _, key := range slices.Sorted(maps.Keys(p.cfg.Topics.Config)) {
		topic.Configs = append(topic.Configs, createtopics.RequestConfig{Name: key, Value: p.cfg.Topics.Config[key]})
	}
	return topic
}

func (p *Producer) notCreated(names []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.topics[name].creation = err
	}
}

// created takes in the answer. A refusal that waiting does not mend halts the topic.
func (p *Producer) created(answer *createtopics.Response, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, result := range answer.Topics {
		t := p.topics[result.Name]
		if t == nil {
			continue
		}
		t.creation = nil
		switch result.ErrorCode {
		case codeNone:
			p.stats.TopicsCreated++
			p.log.Info("topic created", zap.String("topic", t.name), zap.Int32("partitions", result.NumPartitions))
			p.ask(t, now)
		case codeTopicExists: // metadata has not heard of it yet
		case codeTopicForbidden, codeClusterForbidden, codeInvalidTopic, codeInvalidPartitions, codeInvalidReplication,
			codeInvalidConfig, codePolicyViolation:
			t.creation = brokerError{result.ErrorCode, result.ErrorMessage}
			p.haltTopic(t, KindTopicMissing, result.ErrorCode, errors.Join(brokerError{code: codeUnknownTopic}, t.creation), now)
			p.setAsk(t, now.Add(p.cfg.HaltRetry))
		default:
			t.creation = brokerError{result.ErrorCode, result.ErrorMessage}
		}
	}
}
