package relay

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
)

// producerConfig adds what this run's producer must know of the one before: its name, so that the brokers refuse
// what it may still send, and which events it may have published without saving that. After a clean stop there are
// none, and before the first start neither, unless the slot was taken over from somebody else. After a failover the row
// tells nothing of what was published later, so the run before counts as unclean whatever it says.
//
// It is called when the slot is ours, so that nobody can read what is committed from now on: the end of the log
// bounds what the run before has seen.
func (r *Relay) producerConfig(ctx context.Context, store *checkpoint.Store, row checkpoint.Row, source uint32, timeline int32) (kafka.Config, lsn.End, error) {
	cfg := r.cfg.Kafka
	if cfg.ResumePolicy == kafka.ResumeOff {
		return cfg, 0, nil
	}
	cfg.TransactionalID = TransactionalID(source, r.cfg.Postgres.Slot)
	branched := row.Timeline != timeline
	if !row.MatchByID && !branched && (row.State == checkpoint.Clean || row.Epoch == 0) {
		return cfg, 0, nil
	}
	end, err := store.FlushLSN(ctx)
	if err != nil {
		return cfg, 0, err
	}
	cfg.Resume = &kafka.Resume{
		Source: source, From: row.LSN, To: end, Since: r.uncertainSince(row), ProducerID: row.ProducerID,
		ByID: row.MatchByID, Branched: branched, DeadLetterTopics: r.cfg.deadLetterTopics(),
	}
	return cfg, end, nil
}

// noteRouting says when the run before has made other records of rows. That may be wanted; or this is the relay of another
// environment, or of somebody else, with the same Kafka.
func (r *Relay) noteRouting(row *checkpoint.Row) {
	now := r.cfg.routing()
	if row.Routing != "" && row.Routing != now {
		r.log.Warn("the mapping is not that of the run before: events may go to other topics or partitions from here on, and what an "+
			"unclean stop has left uncertain is looked for there only", zap.String("before", row.Routing), zap.String("now", now))
	}
	row.Routing = now
}

// deadLetterTopics are all that are configured, each once.
func (c Config) deadLetterTopics() []string {
	var topics []string
	if c.DeadLetterTopic != "" {
		topics = append(topics, c.DeadLetterTopic)
	}
	if c.Messages != nil && c.Messages.DeadLetterTopic != "" && c.Messages.DeadLetterTopic != c.DeadLetterTopic {
		topics = append(topics, c.Messages.DeadLetterTopic)
	}
	return topics
}

// uncertainSince is the record time from which on an unsaved event may stand in a topic: nothing is older than the
// last saved commit, or than the slot. Zero, the beginning, where a column of the application's gives the time.
func (r *Relay) uncertainSince(row checkpoint.Row) time.Time {
	if r.cfg.ownTime() {
		return time.Time{}
	}
	if row.CommitTime.IsZero() {
		return row.SavedAt
	}
	return row.CommitTime
}

// ownTime tells whether a column of the application's gives records their time.
func (c Config) ownTime() bool {
	own := c.Messages != nil && c.Messages.Route.Columns.Timestamp != ""
	for _, table := range c.Tables {
		own = own || table.Route.Columns.Timestamp != ""
	}
	return own
}

// certain ends the time in which an event may be in Kafka already. What was found there and did not come again
// belongs to transactions that the server has lost (a failover to a standby that was behind): nothing is missing
// in Kafka, but consumers have seen what never was.
func (f *flow) certain() {
	f.uncertain = 0
	f.reportLost()
}

// reportLost asks the producer for such events.
func (f *flow) reportLost() {
	if lost, total := f.publisher.Resumed(lostExamples); total > 0 {
		f.progress.phantoms(lost, total)
	}
}

// lostExamples bounds how many events of lost transactions are named.
const lostExamples = 10
