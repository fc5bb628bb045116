package consumer

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/segmentio/kafka-go"
)

// watchTopics returns, and so ends the generation, when a topic has got partitions that nobody was assigned. kafka-go's own
// watch ends each generation at once while a topic does not exist.
func (r *runner) watchTopics(stop context.Context) {
	known := r.count(stop)
	tick := time.NewTicker(topicWatch)
	defer tick.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-tick.C:
		}
		now := r.count(stop)
		switch {
		case now == nil:
		case known == nil:
			known = now
		case !maps.Equal(known, now):
			r.cfg.Logger.Info("consumer: partitions of a topic have changed", slog.String("group", r.cfg.Group))
			return
		}
	}
}

// count is the number of partitions of each topic; nil: not known. A topic that does not exist has none.
func (r *runner) count(ctx context.Context) map[string]int {
	answer, err := r.client.Metadata(ctx, &kafka.MetadataRequest{Topics: r.cfg.Topics})
	if err != nil {
		return nil
	}
	counts := map[string]int{}
	for _, topic := range answer.Topics {
		counts[topic.Name] = len(topic.Partitions)
	}
	return counts
}
