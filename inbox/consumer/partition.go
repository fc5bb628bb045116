package consumer

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

// partition handles one assigned partition for one generation of the group, in one goroutine.
type partition struct {
	*runner
	generation *kafka.Generation
	topic      string
	id         int
	next       int64 // where to read; may be kafka.FirstOffset
}

// fetchWait is how long a fetch waits for messages at the broker. Closing a reader may take as long.
const fetchWait = 500 * time.Millisecond

// run handles messages until the generation ends (stop), and then finishes the batch under way within the drain timeout.
// When it returns early, the whole generation ends and the group is joined anew.
func (p *partition) run(stop context.Context) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: p.cfg.Brokers, Dialer: p.dialer, Topic: p.topic, Partition: p.id, QueueCapacity: max(100, p.cfg.Batch),
		MinBytes: 1, MaxBytes: 10 << 20, MaxWait: fetchWait, ReadLagInterval: -1, ErrorLogger: p.logger("reader"),
	})
	defer reader.Close() //nolint:errcheck // it only reads
	if err := reader.SetOffset(p.next); err != nil {
		p.report("seek", err)
		return
	}
	work, end := context.WithCancel(context.Background())
	defer end()
	defer context.AfterFunc(stop, func() {
		if pause(work, p.cfg.DrainTimeout) {
			end()
		}
	})()
	for stop.Err() == nil {
		messages, next, err := p.collect(stop, reader)
		if err != nil {
			if stop.Err() == nil {
				p.report("read", err) // the reader goes on by itself
			}
			continue
		}
		if !p.handleAndCommit(stop, work, messages, next) {
			return
		}
	}
}

// collect waits for a message and takes those that follow closely, up to a batch. next is the offset behind them.
func (p *partition) collect(stop context.Context, reader *kafka.Reader) (messages []Message, next int64, err error) {
	wait := stop
	for len(messages) < p.cfg.Batch {
		m, err := reader.FetchMessage(wait)
		if err != nil && next > 0 && stop.Err() == nil {
			break // the wait for more is over, or the reader's error comes again
		}
		if err != nil {
			return nil, 0, err
		}
		next = m.Offset + 1
		p.metrics.lag.WithLabelValues(p.topic, strconv.Itoa(p.id)).Set(float64(m.HighWaterMark - next))
		if !isMarker(&m) {
			messages = append(messages, p.message(m))
		}
		if wait == stop && len(messages) < p.cfg.Batch {
			limited, cancel := context.WithTimeout(stop, p.cfg.BatchWait)
			defer cancel()
			wait = limited
		}
	}
	return messages, next, nil
}

// handleAndCommit reports false when the generation must end.
func (p *partition) handleAndCommit(stop, work context.Context, messages []Message, next int64) bool {
	if p.handler.early && !p.commit(next) {
		return false
	}
	undone := p.handleAll(stop, work, messages)
	if undone >= 0 {
		next = undone
	}
	if p.handler.early {
		return undone < 0
	}
	return (next == firstOffset(messages, next+1) || p.commit(next)) && undone < 0
}

// firstOffset is the offset of the first message, or otherwise where there is none.
func firstOffset(messages []Message, otherwise int64) int64 {
	if len(messages) == 0 {
		return otherwise
	}
	return messages[0].Offset
}

// handleAll handles a batch, its lanes at the same time, and returns the lowest offset that was not handled, -1 where all were.
func (p *partition) handleAll(stop, work context.Context, messages []Message) int64 {
	if len(messages) == 0 {
		return -1
	}
	undone := int64(-1)
	var mu sync.Mutex
	var group errgroup.Group
	for _, lane := range lanes(messages, p.cfg.Concurrency) {
		group.Go(func() error {
			if n := p.handleLane(stop, work, lane); n < len(lane) {
				mu.Lock()
				defer mu.Unlock()
				if at := lane[n].Offset; undone < 0 || at < undone {
					undone = at
				}
			}
			return nil
		})
	}
	_ = group.Wait() // returns no error
	return undone
}

// commit commits the offset. A failure means that the generation is over: the partition is somebody else's, or the
// coordinator is out of reach.
func (p *partition) commit(next int64) bool {
	err := p.generation.CommitOffsets(map[string]map[int]int64{p.topic: {p.id: next}})
	if err != nil {
		p.report("commit offset", err)
	}
	return err == nil
}

func (p *partition) report(what string, err error) {
	p.metrics.errors.WithLabelValues(what).Inc()
	p.cfg.Logger.Warn("consumer: "+what, slog.String("group", p.cfg.Group), slog.String("topic", p.topic), slog.Int("partition", p.id), slog.Any("error", err))
}
