package consumer

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/segmentio/kafka-go"
)

// watchTopics returns, and so ends the generation, when a topic has other partitions than it had before the group was
// joined: then nobody may have been assigned them. kafka-go's own watch ends each generation at once while a topic does
// not exist, and overlooks what changes between the assignment and its first look.
func (r *runner) watchTopics(stop context.Context) {
	tick := time.NewTicker(topicWatch)
	defer tick.Stop()
	for {
		if now := r.count(stop); now != nil && !maps.Equal(r.partitions, now) {
			r.partitions = now // before the group is joined anew
			r.cfg.Logger.Info("consumer: partitions of a topic have changed", slog.String("group", r.cfg.Group))
			return
		}
		select {
		case <-stop.Done():
			return
		case <-tick.C:
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
