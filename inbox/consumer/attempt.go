package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// handleLane handles messages in order, and returns how many are done: all of them unless stop or a message that has
// nowhere to go came between.
func (p *partition) handleLane(stop, work context.Context, lane []Message) (done int) {
	if len(lane) > 1 && p.attempt(work, lane) == nil {
		return len(lane)
	}
	for i := range lane {
		if (i > 0 || len(lane) > 1) && stop.Err() != nil && !p.handler.early {
			return i
		}
		if !p.handleOne(stop, work, lane[i:i+1]) {
			return i
		}
	}
	return len(lane)
}

// handleOne handles a single message, as often as needed. It reports false when it is not done.
func (p *partition) handleOne(stop, work context.Context, one []Message) bool {
	for attempt := 1; ; attempt++ {
		err := p.attempt(work, one)
		switch {
		case err == nil:
			return true
		case work.Err() != nil && !p.handler.early:
			return false // it was interrupted, which says nothing about the message
		case p.handler.early, p.cfg.Attempts > 0 && attempt >= p.cfg.Attempts:
			return p.giveUp(stop, &one[0], attempt, err)
		case !pause(stop, p.cfg.backoff(attempt)):
			return false
		}
	}
}

// attempt calls the handler once.
func (p *partition) attempt(work context.Context, messages []Message) error {
	begin := time.Now()
	known, err := p.call(work, messages)
	p.metrics.handled(p.topic, len(messages), known, time.Since(begin), err)
	if err != nil {
		p.cfg.Logger.Warn("consumer: handle", slog.String("group", p.cfg.Group), slog.String("topic", p.topic), slog.Int("partition", p.id),
			slog.Int64("offset", messages[0].Offset), slog.Int("messages", len(messages)), slog.Any("error", err))
	}
	return err
}

// call makes an error of a panic: one message must not end the process, and with it the work on all others.
func (p *partition) call(work context.Context, messages []Message) (known int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return p.handler.handle(work, messages)
}

// giveUp finds a place for a message that could not be handled.
func (p *partition) giveUp(stop context.Context, m *Message, attempts int, cause error) bool {
	switch {
	case p.letters != nil:
		return p.bury(stop, m, attempts, cause)
	case p.handler.early:
		p.metrics.messages.WithLabelValues(p.topic, "lost").Inc()
		return true
	}
	p.fail(fmt.Errorf("message %s/%d offset %d (event %s) failed %d times, and no dead-letter topic is configured: %w",
		m.Topic, m.Partition, m.Offset, m.ID, attempts, cause))
	return false
}

// backoff is a random part of a pause that doubles with each attempt.
func (c *Config) backoff(attempt int) time.Duration {
	longest := c.MaxBackoff
	if doublings := attempt - 1; doublings < 30 && c.MinBackoff<<doublings > 0 {
		longest = min(longest, c.MinBackoff<<doublings)
	}
	return longest/2 + rand.N(longest/2+1)
}
