package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/metadata"
	"go.uber.org/zap"
)

// leaderlessInterval is how often metadata is asked for while a partition with records has no leader.
const leaderlessInterval = 250 * time.Millisecond

// question is what metadata is asked about.
type question struct {
	known   []string // topics with known partitions
	unknown []string // topics without: the broker may create them
	all     bool     // every topic in use, and the brokers
}

// runMetadata asks for metadata: of new topics at once, after an error soon, of everything now and then.
func (p *Producer) runMetadata(ctx context.Context) error {
	control := &client{cfg: &p.cfg}
	defer control.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		q, at := p.nextQuestion(time.Now())
		if !at.IsZero() {
			timer.Reset(time.Until(at))
			select {
			case <-ctx.Done():
				return nil
			case <-p.cluster.wake:
			case <-timer.C:
			}
			continue
		}
		err := p.answerQuestion(ctx, control, q)
		switch {
		case ctx.Err() != nil:
			return nil
		case isSessionError(err):
			return err
		case err == nil:
			failures = 0
			p.reached()
			continue
		}
		p.unreachable(q, err)
		if !sleep(ctx, backoff(failures)) {
			return nil
		}
		failures++
	}
}

// ask wants metadata of a topic at a time, though not sooner than a moment after the last.
func (p *Producer) ask(t *topic, at time.Time) {
	at = later(at, t.asked.Add(minBackoff))
	if t.askAt.IsZero() || at.Before(t.askAt) {
		p.setAsk(t, at)
	}
}

// setAsk wants metadata of a topic at a time, whatever was wanted before.
func (p *Producer) setAsk(t *topic, at time.Time) {
	if t.askAt.IsZero() {
		p.cluster.asking = append(p.cluster.asking, t)
	}
	t.askAt = at
	p.cluster.rouse()
}

// askAll wants metadata of everything.
func (p *Producer) askAll(now time.Time) {
	if at := later(now, p.cluster.asked.Add(minBackoff)); at.Before(p.cluster.askAt) {
		p.cluster.askAt = at
		p.cluster.rouse()
	}
}

// nextQuestion is what has to be asked now. A time tells that there is nothing to ask before it.
func (p *Producer) nextQuestion(now time.Time) (question, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.cluster
	q := question{known: []string{}, all: !now.Before(c.askAt)}
	if q.all {
		c.asked, c.askAt = now, now.Add(p.cfg.MetadataMaxAge)
		for _, t := range p.topics {
			if len(t.partitions) > 0 {
				p.setAsk(t, now)
			}
		}
	}
	next := c.askAt
	c.asking = slices.DeleteFunc(c.asking, func(t *topic) bool {
		switch {
		case now.Before(t.askAt):
			next = earlier(next, t.askAt)
			return false
		case len(t.partitions) > 0:
			q.known = append(q.known, t.name)
		default:
			q.unknown = append(q.unknown, t.name)
		}
		t.askAt = time.Time{}
		return true
	})
	if q.all || len(q.known) > 0 || len(q.unknown) > 0 {
		next = time.Time{}
	}
	return q, next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// answerQuestion asks and learns. Topics that were known once are never created by asking: somebody deleted them.
func (p *Producer) answerQuestion(ctx context.Context, control *client, q question) error {
	if q.all || len(q.known) > 0 {
		if err := p.askBroker(ctx, control, q.known, false); err != nil {
			return err
		}
	}
	if len(q.unknown) == 0 {
		return nil
	}
	if err := p.askBroker(ctx, control, q.unknown, !p.cfg.Topics.Create); err != nil {
		return err
	}
	if !p.cfg.Topics.Create {
		return nil
	}
	return p.createMissing(ctx, q.unknown)
}

// askBroker asks about topics (an empty list, not nil, asks about none) and learns from the answer.
func (p *Producer) askBroker(ctx context.Context, control *client, names []string, autoCreate bool) error {
	control.leave(p.avoid())
	answer, err := control.call(ctx, p.addresses(), &metadata.Request{TopicNames: names, AllowAutoTopicCreation: autoCreate})
	if err != nil {
		return err
	}
	return p.learn(answer.(*metadata.Response), names, time.Now())
}

// avoid is the address of a broker that does not answer, for one question.
func (p *Producer) avoid() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr := p.cluster.avoid
	p.cluster.avoid = ""
	return addr
}

// reached takes note that a broker answers.
func (p *Producer) reached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster.failing.err == nil {
		return
	}
	p.log.Info("kafka answers again", zap.Duration("after", time.Since(p.cluster.failing.since)))
	p.cluster.failing = failure{}
	p.notify()
}

// unreachable takes note that no broker answered and puts the question again.
func (p *Producer) unreachable(q question, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.cluster.failing.err == nil {
		p.log.Warn("no kafka broker answers", zap.Error(err))
		p.notify()
	}
	p.cluster.failing.note(now, err)
	if q.all {
		p.cluster.askAt = now
	}
	for _, name := range append(q.known, q.unknown...) {
		p.setAsk(p.topics[name], now)
	}
}
