package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/lsn"
)

// reachTimeout bounds the making of the topics, with the first contact to the brokers.
const reachTimeout = 15 * time.Second

// createTopics makes the topics that are absent.
func createTopics(ctx context.Context, brokers, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	existing, err := kafkatest.Topics(ctx, brokers)
	if err != nil {
		return fmt.Errorf("reach Kafka at %s: %w", strings.Join(brokers, ","), err)
	}
	for _, topic := range topics {
		if slices.Contains(existing, topic) {
			continue
		}
		if err := kafkatest.CreateTopic(ctx, brokers, topic, -1, -1, nil); err != nil {
			return err
		}
	}
	return nil
}

// delivery is a record as the consumer sees it.
type delivery struct {
	topic, key, eventType, payload string
	id                             string
	latency                        time.Duration // since the commit, which the position header tells
}

// consume hands each record of the topics to see, until ctx ends.
func consume(ctx context.Context, brokers, topics []string, see func(delivery)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("consume: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) { see(deliveryOf(r, now)) })
	}
}

func deliveryOf(r *kgo.Record, now time.Time) delivery {
	d := delivery{topic: r.Topic, key: string(r.Key), payload: string(r.Value)}
	for _, h := range r.Headers {
		switch h.Key {
		case "id":
			d.id = string(h.Value)
		case typeHeader:
			d.eventType = string(h.Value)
		case "walrelay.lsn":
			if identity, err := lsn.ParseIdentity(string(h.Value)); err == nil {
				d.latency = now.Sub(time.UnixMicro(identity.Time))
			}
		}
	}
	return d
}

// readBack is the whole log of the topics, for the audit.
func readBack(ctx context.Context, brokers, topics []string) ([]audit.Record, error) {
	log, err := kafkatest.ReadAll(ctx, brokers, topics...)
	if err != nil {
		return nil, err
	}
	records := make([]audit.Record, len(log))
	for i, r := range log {
		records[i] = audit.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key)}
		for _, h := range r.Headers {
			switch h.Name {
			case "id":
				records[i].ID = string(h.Value)
			case "walrelay.lsn":
				records[i].Position = string(h.Value)
			}
		}
	}
	return records, nil
}
