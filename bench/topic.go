package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/walrelay/walrelay/internal/kafkatest"
)

// aggregate is the aggregatetype of all rows, and topic where walrelay's default routing brings them.
const (
	aggregate = "order"
	topic     = "outbox.event." + aggregate
)

// freshTopic makes the topic anew. With append times its records carry the time when the broker appended them, else that
// of the commit.
func freshTopic(ctx context.Context, kafka *kafkatest.Cluster, appendTime bool) error {
	existing, err := kafkatest.Topics(ctx, kafka.Bootstrap())
	if err != nil {
		return err
	}
	if slices.Contains(existing, topic) {
		if err := kafka.DeleteTopic(ctx, topic); err != nil {
			return err
		}
	}
	settings := map[string]string{}
	if appendTime {
		settings["message.timestamp.type"] = "LogAppendTime"
	}
	return kafka.CreateTopic(ctx, topic, kafkatest.Partitions, 1, settings)
}

// The questions that ListOffsets answers for a partition, in place of a timestamp.
const (
	endOffset     = -1
	newestOffset  = -3 // with its timestamp
	oldestOffset  = 0  // the first record of this time or later, with its timestamp
	unknownOffset = -1 // the answer for an empty partition
)

// offsets asks one of the questions about each partition of the topic.
func offsets(ctx context.Context, client *kgo.Client, question int64) ([]kmsg.ListOffsetsResponseTopicPartition, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for number := range int32(kafkatest.Partitions) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = number, question
		asked.Partitions = append(asked.Partitions, p)
	}
	request.Topics = append(request.Topics, asked)
	reply, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ask for offsets: %w", err)
	}
	answers := reply.Topics[0].Partitions
	for _, p := range answers {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, fmt.Errorf("ask for offsets of partition %d: %w", p.Partition, err)
		}
	}
	return answers, nil
}

// awaitRecords waits until the topic holds n records, as long as alive returns nil.
func awaitRecords(ctx context.Context, client *kgo.Client, n int, alive func() error) error {
	var have int64
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		if err := alive(); err != nil {
			return false, err
		}
		answers, err := offsets(ctx, client, endOffset)
		have = 0
		for _, p := range answers {
			have += p.Offset
		}
		return have >= int64(n), err
	})
	if err != nil {
		return fmt.Errorf("wait for %d records in %s, which has %d: %w", n, topic, have, err)
	}
	return nil
}

// appends are the times of the first and the last append to the topic, by the broker's clock, to the millisecond.
func appends(ctx context.Context, client *kgo.Client) (first, last time.Time, err error) {
	oldest, err := offsets(ctx, client, oldestOffset)
	if err != nil {
		return first, last, err
	}
	newest, err := offsets(ctx, client, newestOffset)
	if err != nil {
		return first, last, err
	}
	for i := range oldest {
		if oldest[i].Offset == unknownOffset {
			continue
		}
		if t := time.UnixMilli(oldest[i].Timestamp); first.IsZero() || t.Before(first) {
			first = t
		}
		if t := time.UnixMilli(newest[i].Timestamp); t.After(last) {
			last = t
		}
	}
	return first, last, nil
}

// verify checks of all records of the topic that each of n events stands there once, those of a key in order.
func verify(records []kafkatest.Record, n int) error {
	seen := make([]bool, n+1)
	newest := map[string]int{}
	duplicated, reordered := 0, 0
	for _, r := range records {
		seq := seqOf(r.Value)
		switch {
		case seq < 1 || seq > n:
			return fmt.Errorf("verify %s: partition %d offset %d is not one of our events", topic, r.Partition, r.Offset)
		case seen[seq]:
			duplicated++
		case seq < newest[string(r.Key)]:
			reordered++
		}
		seen[seq] = true
		newest[string(r.Key)] = max(newest[string(r.Key)], seq)
	}
	missing := 0
	for _, there := range seen[1:] {
		if !there {
			missing++
		}
	}
	if missing+duplicated+reordered > 0 {
		return fmt.Errorf("verify %s: of %d events %d missing, %d duplicated, %d reordered", topic, n, missing, duplicated, reordered)
	}
	return nil
}

// seqOf reads the number of an event from its payload, 0 when it has none.
func seqOf(payload []byte) int {
	_, rest, _ := bytes.Cut(payload, []byte(`"seq": `))
	digits := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		return 0
	}
	seq, err := strconv.Atoi(string(rest[:digits]))
	if err != nil {
		return 0
	}
	return seq
}
