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
	up      bool
	failing failure
}

// runSession gets the producer its identity. From then on records are taken. It tries for as long as ctx lasts.
func (p *Producer) runSession(ctx context.Context) error {
	control := client{cfg: &p.cfg}
	defer control.close()
	for attempt := 0; ; attempt++ {
		who, err := p.initProducerID(ctx, &control)
		if err == nil {
			p.begin(who)
			return nil
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
	var broker brokerError
	if errors.As(err, &broker) && broker.code == codeClusterForbidden {
		p.log.Error("no right to an idempotent producer", zap.Error(err))
		p.notify()
		return p.cfg.HaltRetry
	}
	return backoff(attempt)
}

// begin opens the session, and with it the topics that are known already.
func (p *Producer) begin(who identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = session{identity: who, up: true}
	p.log.Info("kafka session begins", zap.Int64("producer_id", who.id), zap.Int16("epoch", who.epoch))
	for _, t := range p.topics {
		p.admit(t)
	}
}

// admit is passed by every topic before its first record, and again when it has got new partitions: what has to be
// known of a topic's past in this session must be found out here, before admitted is set. A new producer id has no past.
func (p *Producer) admit(t *topic) {
	if !p.session.up || len(t.partitions) == 0 {
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
