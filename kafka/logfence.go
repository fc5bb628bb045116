package kafka

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// Fence puts a marker of our own into each partition of the topics, behind which nothing can come that an earlier producer
// with the same transactional id still has under way. Only a Read up to it proves that. It reports false where there is no
// right to the transactional id: then it has waited a while instead, and what is late may still come.
func (r *LogReader) Fence(ctx context.Context, topics []string) (bool, error) {
	if r.control == nil {
		r.control = &coordinator{cfg: &r.cfg}
	}
	who, err := r.control.initProducerID(ctx, r.cfg.Brokers)
	if isCode(err, codeTransactionalForbidden) {
		r.log.Warn("no right to the transactional id: a relay that still sends is not refused",
			zap.String("transactional_id", r.cfg.TransactionalID))
		if !sleep(ctx, unfencedDelay) {
			return false, context.Cause(ctx)
		}
		return false, nil
	}
	if err != nil {
		return false, wrapLog("take the transactional id over", err)
	}
	if err := r.mark(ctx, r.control, who, topics); err != nil {
		return false, err
	}
	return true, nil
}

// mark puts the markers of somebody who has taken the transactional id over.
func (r *LogReader) mark(ctx context.Context, control *coordinator, who identity, topics []string) error {
	r.who, r.control = who, control
	for _, name := range topics {
		if err := r.learn(ctx, []string{name}); err != nil {
			return err
		}
		parts := r.topics[name]
		if len(parts) == 0 {
			continue
		}
		ids := make([]int32, len(parts))
		for i, p := range parts {
			ids[i], p.marker = p.id, true
		}
		if err := r.control.fence(ctx, r.cfg.Brokers, who, name, ids); err != nil {
			return wrapLog("fence", err)
		}
	}
	return nil
}

// patience measures how long a partition's end has stood still.
type patience struct{ since time.Time }

func newPatience() *patience { return &patience{time.Now()} }

// moved takes note of an attempt and tells whether it is time to look why nothing comes.
func (p *patience) moved(on bool) (overdue bool) {
	if on || time.Since(p.since) > markerPatience {
		p.since, overdue = time.Now(), !on
	}
	return overdue
}

// unstick looks after a partition that gives nothing more. Its fence is repeated when the marker does not come: the
// coordinator leaves out a partition that has no leader at that moment, without a word. Otherwise its end may have gone
// back with a leader that was lost.
func (r *LogReader) unstick(ctx context.Context, p *logPartition) error {
	if p.marker {
		return wrapLog("fence", r.control.fence(ctx, r.cfg.Brokers, r.who, p.topic, []int32{p.id}))
	}
	end, err := r.offset(ctx, p, offsetLatest)
	p.end = min(p.end, end)
	return err
}
