package inbox

import (
	"context"
	"fmt"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/outbox"
)

// Position is where an event stands.
type Position struct {
	Topic     string
	Partition int
	Offset    int64
	// LSN is the text of the header walrelay.lsn. Empty: the record has none, and its offset counts.
	LSN string
}

// OnceInOrder is Once by position: fn is not called for an event that is not behind the last one of its partition. It keeps
// one row for each consumer, partition and source instead of one for each event. Events of a partition must be processed in
// order, one transaction after the other; who skips one has lost it.
//
// By LSN it also recognises events that were published twice; all events of one database must then come into the topic
// through one slot. By offset it recognises what was delivered twice; delete the consumer's rows in
// walrelay.processed_positions when the topic is made anew.
//
// After an error the transaction must be rolled back, see Once.
func OnceInOrder(ctx context.Context, tx outbox.Tx, consumer string, at Position, fn func(context.Context) error) (called bool, err error) {
	if err := checkNames(consumer, at.Topic); err != nil {
		return false, err
	}
	source, commit, ordinal, micros := "", "0/0", at.Offset, int64(0)
	if at.LSN != "" {
		id, err := lsn.ParseIdentity(at.LSN)
		if err != nil {
			return false, fmt.Errorf("inbox: header walrelay.lsn of %s/%d offset %d: %w", at.Topic, at.Partition, at.Offset, err)
		}
		source, commit, ordinal, micros = fmt.Sprintf("%08x", id.Source), id.Commit.String(), int64(id.Ordinal), id.Time
	}
	// An event that is newer than all that were processed was not among them, even if its position is lower: then its
	// server was restored, or replaced by one that had less.
	tag, err := tx.Exec(ctx, `INSERT INTO walrelay.processed_positions AS p
			(consumer, topic, partition, source, commit_lsn, ordinal, commit_time)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (consumer, topic, partition, source) DO UPDATE SET commit_lsn = excluded.commit_lsn, ordinal = excluded.ordinal,
			commit_time = greatest(p.commit_time, excluded.commit_time), updated_at = now()
		WHERE (excluded.commit_lsn, excluded.ordinal) > (p.commit_lsn, p.ordinal) OR excluded.commit_time > p.commit_time`,
		consumer, at.Topic, at.Partition, source, commit, ordinal, micros)
	if err != nil {
		return false, fmt.Errorf("inbox: note position %s/%d offset %d for consumer %s: %w", at.Topic, at.Partition, at.Offset, consumer, remedy(err))
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	return true, fn(ctx)
}
