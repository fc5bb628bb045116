package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Header is one header of a record. A Kafka null is a nil Value.
type Header struct {
	Name  string
	Value []byte
}

// Record is one record as it stands in Kafka. A Kafka null is a nil Key or Value. ProducerID is -1 for a producer without
// idempotence.
type Record struct {
	Topic         string
	Partition     int32
	Offset        int64
	Key, Value    []byte
	Headers       []Header // in the order of the record
	Timestamp     time.Time
	ProducerID    int64
	ProducerEpoch int16
}

// Log is the content of some topics, in order of offset within each partition.
type Log struct {
	Records  []Record
	Controls []Record // transaction markers; Key and Value are Kafka's encoding
}

// ReadAll is Read without the control records.
func ReadAll(ctx context.Context, bootstrap []string, topics ...string) ([]Record, error) {
	log, err := Read(ctx, bootstrap, topics...)
	return log.Records, err
}

// Read reads every partition of the topics from the first record that is kept to the high watermark of the moment of the
// call, committed or not. While a partition has no leader it waits.
func Read(ctx context.Context, bootstrap []string, topics ...string) (Log, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return Log{}, fmt.Errorf("read topics: %w", err)
	}
	defer client.Close()
	partitions, err := awaitPartitions(ctx, client, topics)
	if err != nil {
		return Log{}, fmt.Errorf("read topics: %w", err)
	}
	first, err := offsets(ctx, client, partitions, -2)
	if err != nil {
		return Log{}, fmt.Errorf("read topics: %w", err)
	}
	end, err := offsets(ctx, client, partitions, -1)
	if err != nil {
		return Log{}, fmt.Errorf("read topics: %w", err)
	}
	from := map[string]map[int32]kgo.Offset{}
	for p, offset := range first {
		if offset >= end[p] {
			delete(end, p)
			continue
		}
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.number] = kgo.NewOffset().At(offset)
	}
	client.AddConsumePartitions(from)
	log, err := consume(ctx, client, end)
	if err != nil {
		return log, fmt.Errorf("read topics: %w", err)
	}
	return log, nil
}

// Length is how many records and transaction markers the topics have.
func Length(ctx context.Context, bootstrap []string, topics ...string) (n int64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return 0, fmt.Errorf("measure topics: %w", err)
	}
	defer client.Close()
	partitions, err := awaitPartitions(ctx, client, topics)
	if err != nil {
		return 0, fmt.Errorf("measure topics: %w", err)
	}
	for timestamp, sign := range map[int64]int64{-2: -1, -1: 1} { // first and end
		found, err := offsets(ctx, client, partitions, timestamp)
		if err != nil {
			return 0, fmt.Errorf("measure topics: %w", err)
		}
		for _, offset := range found {
			n += sign * offset
		}
	}
	return n, nil
}

// topicPartition names a partition.
type topicPartition struct {
	topic  string
	number int32
}

// awaitPartitions lists the partitions of the topics and waits until all have a leader.
func awaitPartitions(ctx context.Context, client *kgo.Client, topics []string) (map[string][]int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	partitions := map[string][]int32{}
	missing := error(nil)
	err := await(ctx, func() error {
		reply, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		clear(partitions)
		for _, t := range reply.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				missing = fmt.Errorf("%s: %w", *t.Topic, err)
				return nil
			}
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !errors.Is(err, kerr.ReplicaNotAvailable) {
					return fmt.Errorf("%s/%d: %w", *t.Topic, p.Partition, err)
				}
				partitions[*t.Topic] = append(partitions[*t.Topic], p.Partition)
			}
		}
		return nil
	})
	return partitions, errors.Join(err, missing)
}

// offsets asks the leaders for the first (timestamp -2) or the end (-1) offset of each partition. For a reader of
// uncommitted records the end is the high watermark.
func offsets(ctx context.Context, client *kgo.Client, partitions map[string][]int32, timestamp int64) (map[topicPartition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	for name, numbers := range partitions {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for _, number := range numbers {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = number, timestamp
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	found := map[topicPartition]int64{}
	err := await(ctx, func() error {
		reply, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		for _, t := range reply.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("offset of %s/%d: %w", t.Topic, p.Partition, err)
				}
				found[topicPartition{t.Topic, p.Partition}] = p.Offset
			}
		}
		return nil
	})
	return found, err
}

// consume collects the records below end. The last offset of a log is always there: compaction leaves the newest segment
// alone, and control records are kept.
func consume(ctx context.Context, client *kgo.Client, end map[topicPartition]int64) (Log, error) {
	var log Log
	for len(end) > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return log, fmt.Errorf("%w; %d partitions were not read to their end", context.Cause(ctx), len(end))
		}
		for _, failed := range fetches.Errors() {
			return log, fmt.Errorf("%s/%d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := topicPartition{r.Topic, r.Partition}
			limit, open := end[p]
			if !open || r.Offset >= limit {
				delete(end, p)
				return
			}
			if r.Attrs.IsControl() {
				log.Controls = append(log.Controls, record(r))
			} else {
				log.Records = append(log.Records, record(r))
			}
			if r.Offset == limit-1 {
				delete(end, p)
			}
		})
	}
	return log, nil
}

func record(r *kgo.Record) Record {
	var headers []Header
	for _, h := range r.Headers {
		headers = append(headers, Header{Name: h.Key, Value: h.Value})
	}
	return Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Key: r.Key, Value: r.Value, Headers: headers,
		Timestamp: r.Timestamp, ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch,
	}
}
