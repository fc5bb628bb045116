package kafka

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// What keeps an earlier producer out, or would keep us out, does not last by itself:
//
//   - The coordinator forgets a transactional id that it has not written of for transactional.id.expiration.ms (7 days).
//     Batches do not count. The next producer would get another producer id, which refuses nobody.
//   - A leader forgets an epoch that has written nothing to its partition for producer.id.expiration.ms (1 day), markers
//     included. A process that stood still for so long (a suspended machine, a debugger) could go on as if it were alone.
//
// So an empty transaction over one partition is aborted once a day, and before anything is sent after a time in which this
// process did not run. It changes neither epoch nor sequences, keeps the id alive, and is refused if another producer has
// taken over. It costs one marker.

const (
	// renewEvery is well below the 7 days.
	renewEvery = 24 * time.Hour
	// pauseLimit is how long the process may have stood still without being asked about it.
	pauseLimit = time.Minute
	// beatEvery is how often it takes note that it runs.
	beatEvery = 10 * time.Second
)

// standing is what a session knows of its own life. Guarded by Producer.mu.
type standing struct {
	beat  int64 // when the process was last known to run, wall clock: it goes on while a machine is suspended
	doubt bool  // it stood still, so nothing is sent
}

// doubtful tells whether nothing may be sent before the coordinator was asked. Both the lanes and the beat ask: which of
// them runs first after a pause is not known.
func (p *Producer) doubtful(now time.Time) bool {
	s := &p.session
	if s.plain {
		return false
	}
	if !s.doubt && now.UnixNano()-s.beat > int64(p.pauseLimit) {
		s.doubt = true
		p.log.Warn("the process stood still; nothing is sent before the coordinator has confirmed that no other relay took over",
			zap.Duration("for", time.Duration(now.UnixNano()-s.beat)))
	}
	return s.doubt
}

// beats takes note that the process runs and tells whether it is in doubt.
func (p *Producer) beats() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	doubt := p.doubtful(now)
	p.session.beat = now.UnixNano()
	return doubt
}

// stand keeps the session's standing until ctx ends. The error is a *SessionError.
func (p *Producer) stand(ctx context.Context, named *coordinator, who identity) error {
	ticker := time.NewTicker(min(beatEvery, p.renewEvery))
	defer ticker.Stop()
	for renewed := time.Now().UnixNano(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !p.beats() && time.Now().UnixNano()-renewed < int64(p.renewEvery) {
			continue
		}
		switch err := p.renew(ctx, named, who); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			renewed = time.Now().UnixNano()
		case isSessionError(err):
			p.mu.Lock()
			p.stopped = true
			p.mu.Unlock()
			return err
		default: // again at the next beat
			p.notRenewed(err)
		}
	}
}

// renew aborts an empty transaction over one partition, and ends the doubt. Before a topic is used there is nothing that
// could be refused.
func (p *Producer) renew(ctx context.Context, named *coordinator, who identity) error {
	topic, partition, used := p.anyPartition()
	if used {
		err := named.fence(ctx, p.addresses(), who, topic, []int32{partition})
		if err != nil && !isCode(err, codeTransactionalForbidden) {
			return err
		}
		if err != nil {
			p.log.Warn("no right to the transactional id any more: another relay that took over is not noticed", zap.Error(err))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session.doubt, p.session.failing = false, failure{}
	p.session.beat = time.Now().UnixNano()
	p.signalReady()
	return nil
}

// notRenewed takes note of a failed attempt. It is worth telling while something waits for it.
func (p *Producer) notRenewed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Warn("the transactional id cannot be renewed", zap.Error(err))
	if p.session.doubt {
		p.session.failing.note(time.Now(), err)
		p.notify()
	}
}

// anyPartition is a partition with a leader of any topic that takes records.
func (p *Producer) anyPartition() (topic string, partition int32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.topics {
		if !t.admitted {
			continue
		}
		for _, pt := range t.partitions {
			if pt.broker != nil {
				return t.name, pt.id, true
			}
		}
	}
	return "", 0, false
}
