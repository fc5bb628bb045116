package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topics are the topics of a workload.
type topics struct {
	client     *kgo.Client
	names      []string
	partitions int // of each
}

func (s *stage) topics(w workload) topics {
	return topics{s.client, w.topicNames(), w.partitionsEach()}
}

// renew makes the topics anew. With append times their records carry the time when the broker appended them, else what the
// producer says.
func (t topics) renew(ctx context.Context, appendTime bool) error {
	if err := t.remove(ctx); err != nil {
		return err
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range t.names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(t.partitions), 1
		if appendTime {
			kind := "LogAppendTime"
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = "message.timestamp.type", &kind
			topic.Configs = append(topic.Configs, c)
		}
		request.Topics = append(request.Topics, topic)
	}
	reply, err := request.RequestWith(ctx, t.client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, topic := range reply.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", topic.Topic, err)
		}
	}
	err = poll(ctx, 20*time.Millisecond, func() (bool, error) {
		_, err := t.offsets(ctx, endOffset)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("create topics: wait for their leaders: %w", err)
	}
	return nil
}

// remove deletes those that are there and waits until the broker has forgotten them.
func (t topics) remove(ctx context.Context) error {
	request := kmsg.NewPtrDeleteTopicsRequest()
	for _, name := range t.names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		request.Topics, request.TopicNames = append(request.Topics, topic), append(request.TopicNames, name)
	}
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		reply, err := request.RequestWith(ctx, t.client)
		if err != nil {
			return false, err
		}
		gone := true
		for _, topic := range reply.Topics {
			err := kerr.ErrorForCode(topic.ErrorCode)
			gone = gone && errors.Is(err, kerr.UnknownTopicOrPartition)
		}
		return gone, nil
	})
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	return nil
}

// The questions that ListOffsets answers for a partition, in place of a timestamp.
const (
	endOffset     = -1
	newestOffset  = -3 // with its timestamp
	oldestOffset  = 0  // the first record of this time or later, with its timestamp
	unknownOffset = -1 // the answer for an empty partition
)

// offsets asks one of the questions about each partition, in a fixed order.
func (t topics) offsets(ctx context.Context, question int64) ([]kmsg.ListOffsetsResponseTopicPartition, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	for _, name := range t.names {
		asked := kmsg.NewListOffsetsRequestTopic()
		asked.Topic = name
		for number := range int32(t.partitions) {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = number, question
			asked.Partitions = append(asked.Partitions, p)
		}
		request.Topics = append(request.Topics, asked)
	}
	reply, err := request.RequestWith(ctx, t.client)
	if err != nil {
		return nil, fmt.Errorf("ask for offsets: %w", err)
	}
	var answers []kmsg.ListOffsetsResponseTopicPartition
	for _, topic := range reply.Topics {
		answers = append(answers, topic.Partitions...)
	}
	for _, p := range answers {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, fmt.Errorf("ask for offsets of partition %d: %w", p.Partition, err)
		}
	}
	return answers, nil
}

// length is how many records there are.
func (t topics) length(ctx context.Context) (n int64, err error) {
	answers, err := t.offsets(ctx, endOffset)
	for _, p := range answers {
		n += p.Offset
	}
	return n, err
}

// await waits until the topics hold n records, as long as alive returns nil.
func (t topics) await(ctx context.Context, n int, alive func() error) error {
	var have int64
	err := poll(ctx, 50*time.Millisecond, func() (ok bool, err error) {
		if err := alive(); err != nil {
			return false, err
		}
		have, err = t.length(ctx)
		if kerr.IsRetriable(err) { // such as a leader that is not elected yet
			return false, nil
		}
		return have >= int64(n), err
	})
	if err != nil {
		return fmt.Errorf("wait for %d records, %d are there: %w", n, have, err)
	}
	return nil
}

// appends are the times of the first and the last append, by the broker's clock, to the millisecond.
func (t topics) appends(ctx context.Context) (first, last time.Time, err error) {
	oldest, err := t.offsets(ctx, oldestOffset)
	if err != nil {
		return first, last, err
	}
	newest, err := t.offsets(ctx, newestOffset)
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

// verify reads all records and checks that each of n events stands there once, those of a key in order.
func (t topics) verify(ctx context.Context, n int) error {
	have, err := t.length(ctx)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(t.client.Opts(), kgo.ConsumeTopics(t.names...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(8<<20), kgo.MaxConcurrentFetches(1))...)
	if err != nil {
		return err
	}
	defer client.Close()
	l := newLedger(n)
	for have > 0 {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("verify: read %s/%d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		for records := fetches.RecordIter(); !records.Done(); have-- {
			if err := l.add(records.Next()); err != nil {
				return err
			}
		}
	}
	return l.verdict()
}

// ledger counts the events of a workload.
type ledger struct {
	seen                  []bool
	newest                map[string]int // by key
	duplicated, reordered int
}

func newLedger(n int) *ledger { return &ledger{seen: make([]bool, n+1), newest: map[string]int{}} }

func (l *ledger) add(r *kgo.Record) error {
	seq := seqOf(r.Value)
	switch {
	case seq < 1 || seq >= len(l.seen):
		return fmt.Errorf("verify: partition %d offset %d of %s is not one of our events", r.Partition, r.Offset, r.Topic)
	case l.seen[seq]:
		l.duplicated++
	case seq < l.newest[string(r.Key)]:
		l.reordered++
	}
	l.seen[seq] = true
	l.newest[string(r.Key)] = max(l.newest[string(r.Key)], seq)
	return nil
}

func (l *ledger) verdict() error {
	missing := 0
	for _, there := range l.seen[1:] {
		if !there {
			missing++
		}
	}
	if missing+l.duplicated+l.reordered > 0 {
		return fmt.Errorf("verify: of %d events %d missing, %d duplicated, %d reordered", len(l.seen)-1, missing, l.duplicated, l.reordered)
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
