package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"go.uber.org/zap"
)

// identity is what brokers know a producer by. With it and a sequence per partition they recognise a batch that comes
// twice.
type identity struct {
	id    int64
	epoch int16
}

// session is the producer's standing at the brokers. Guarded by Producer.mu.
type session struct {
	identity
	up bool
	standing
	plain   bool // no right to the transactional id: nobody is fenced
	failing failure
}

// runSession gets the producer its identity. From then on records are taken. It tries for as long as ctx lasts, and looks
// after the session from then on.
func (p *Producer) runSession(ctx context.Context) error {
	control := client{cfg: &p.cfg}
	defer control.close()
	named := &coordinator{cfg: &p.cfg}
	defer named.close()
	for attempt, plain := 0, p.cfg.TransactionalID == ""; ; attempt++ {
		var who identity
		var err error
		if plain {
			who, err = p.initProducerID(ctx, &control)
		} else {
			who, err = named.initProducerID(ctx, p.addresses())
		}
		if err == nil {
			if !p.awaitUnfenced(ctx, who, plain) {
				return nil
			}
			p.begin(who, plain)
			if plain {
				return nil
			}
			return p.stand(ctx, named, who)
		}
		if !plain && isCode(err, codeTransactionalForbidden) && p.cfg.ResumePolicy != ResumeRequire {
			p.log.Warn("no right to the transactional id: an earlier relay that still sends is not refused, and events of "+
				"an unclean stop may be published twice", zap.String("transactional_id", p.cfg.TransactionalID), zap.Error(err))
			plain = true
			continue
		}
		if !sleep(ctx, p.sessionFailed(err, attempt)) {
			return nil
		}
	}
}

// initProducerID asks for a new producer id. An explicit -1 for id and epoch means that there is none yet; 0 would be
// read as an id.
func (p *Producer) initProducerID(ctx context.Context, control *client) (identity, error) {
	answer, err := control.call(ctx, p.addresses(), &initproducerid.Request{ProducerID: -1, ProducerEpoch: -1})
	if err != nil {
		return identity{}, err
	}
	given := answer.(*initproducerid.Response)
	if given.ErrorCode != codeNone {
		return identity{}, brokerError{code: given.ErrorCode}
	}
	return identity{id: given.ProducerID, epoch: given.ProducerEpoch}, nil
}

// sessionFailed takes note of a failed attempt and tells how long to wait. A fresh broker that has no block of ids yet
// says COORDINATOR_LOAD_IN_PROGRESS for a moment; a missing right waits for a person.
func (p *Producer) sessionFailed(err error, attempt int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.session.failing.note(now, err)
	if isCode(err, codeClusterForbidden) || isCode(err, codeTransactionalForbidden) {
		p.log.Error("no right to the producer that is needed", zap.Error(err))
		p.notify()
		return p.cfg.HaltRetry
	}
	return backoff(attempt)
}

// begin opens the session, and with it the topics that are known already.
func (p *Producer) begin(who identity, plain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = session{identity: who, up: true, plain: plain, standing: standing{beat: time.Now().UnixNano()}}
	p.log.Info("kafka session begins", zap.Int64("producer_id", who.id), zap.Int16("epoch", who.epoch))
	for _, t := range p.topics {
		p.admit(t)
	}
}

// awaitUnfenced waits where an earlier producer is not refused and may still be sending: a transactional id that has
// expired or run through its epochs gives a new producer id, and a plain one always does. It tells whether ctx goes on.
func (p *Producer) awaitUnfenced(ctx context.Context, who identity, plain bool) bool {
	resume := p.cfg.Resume
	if resume == nil || !plain && resume.ProducerID == who.id && !resume.ByID {
		return true
	}
	return sleep(ctx, unfencedDelay)
}

func isCode(err error, code int16) bool {
	var broker brokerError
	return errors.As(err, &broker) && broker.code == code
}

// ProducerID is what the brokers know this producer by, -1 while there is no session. A later producer with the same
// transactional id refuses this one only if it gets the same id.
func (p *Producer) ProducerID() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.session.up {
		return -1
	}
	return p.session.id
}

// admit is passed by every topic before its first record, and again when it has got new partitions. While uncertain
// events of an earlier producer come, the topic's past is looked up first.
func (p *Producer) admit(t *topic) {
	if !p.session.up || len(t.partitions) == 0 {
		return
	}
	if p.resume != nil && !p.session.plain {
		p.wantPast(t)
		return
	}
	t.admitted = true
	p.reopen(t)
}

// sleep waits for d and tells whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
