package relay

import (
	"context"
	"errors"
	"strconv"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/router"
)

// Headers of a record in the dead-letter topic, in front of the position.
const (
	headerError = "walrelay.error" // why it could not be published
	headerTable = "walrelay.table" // where its row stands
	headerTopic = "walrelay.topic" // where it should have gone; these two are absent where that is not known
	headerSize  = "walrelay.size"  // bytes of the value that was left out because it is too large
)

// isPoison tells whether an error is a property of one event alone: nothing but a person, or the dead-letter topic,
// helps it.
func isPoison(err error) bool {
	var kafkaPoison *kafka.PoisonError
	var routerPoison *router.PoisonError
	return errors.As(err, &kafkaPoison) || errors.As(err, &routerPoison)
}

// poisoned meets an event that can never be published as it is; f.message has what could be made of it. It goes to the
// dead-letter topic where there is one. Otherwise the relay halts: nothing overtakes the event, the slot keeps the
// log, and a person decides. Any other error ends the stream.
func (f *flow) poisoned(ctx context.Context, table string, err error) error {
	if !isPoison(err) {
		return err
	}
	if f.cfg.DeadLetterTopic != "" {
		return f.bury(ctx, table, err)
	}
	f.progress.halt(f.identity, err)
	for {
		if request, ok := f.orders.skip(f.identity); ok {
			f.progress.skipped(f.identity, request)
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// bury publishes the event to the dead-letter topic. It counts as a message of its transaction, so that nothing is
// confirmed before it is acknowledged there.
func (f *flow) bury(ctx context.Context, table string, why error) error {
	f.message.Identity = f.identity
	dead := deadLetter(f.cfg.DeadLetterTopic, &f.message, table, why.Error(), false)
	for {
		status, err := f.append(&dead)
		if isPoison(err) && dead.Value != nil { // too large there as well
			dead = deadLetter(f.cfg.DeadLetterTopic, &f.message, table, why.Error(), true)
			continue
		}
		switch {
		case err != nil:
			return err
		case status == kafka.Appended:
			f.window.Add(1)
			f.progress.buried()
			return nil
		case status == kafka.Suppressed:
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// deadLetter makes the record for the dead-letter topic: as it would have been, with the reason, and without the value
// where that is too large.
func deadLetter(topic string, m *router.Message, table, why string, stub bool) router.Message {
	dead := *m
	dead.Topic, dead.Partition, dead.Headers = topic, -1, nil
	position := router.Header{Name: router.HeaderPosition, Value: m.Identity.Append(nil)}
	for _, h := range m.Headers {
		if h.Name != router.HeaderPosition {
			dead.Headers = append(dead.Headers, h)
		}
	}
	dead.Headers = append(dead.Headers, router.Header{Name: headerError, Value: []byte(why)})
	if table != "" {
		dead.Headers = append(dead.Headers, router.Header{Name: headerTable, Value: []byte(table)})
	}
	if m.Topic != "" {
		dead.Headers = append(dead.Headers, router.Header{Name: headerTopic, Value: []byte(m.Topic)})
	}
	if stub {
		dead.Headers = append(dead.Headers, router.Header{Name: headerSize, Value: strconv.AppendInt(nil, int64(len(m.Value)), 10)})
		dead.Value = nil
	}
	dead.Headers = append(dead.Headers, position)
	return dead
}

// refused meets a record that the producer has and the brokers refuse, which halts its partition: skipped by order, or
// buried. What is to be buried waits in f.parked until the producer takes it.
func (f *flow) refused(trouble kafka.Trouble) {
	if trouble.Kind != kafka.KindRecordTooLarge && trouble.Kind != kafka.KindRecordRefused {
		return
	}
	request, skip := f.orders.peek(trouble.Event)
	if !skip && f.cfg.DeadLetterTopic == "" {
		return
	}
	taken, ok := f.publisher.Withdraw(trouble.Topic, trouble.Partition)
	if !ok {
		return
	}
	if skip {
		f.orders.skip(trouble.Event)
		f.progress.skipped(trouble.Event, request)
		f.window.Acked(taken.Tx, 1)
		return
	}
	taken.Message = deadLetter(f.cfg.DeadLetterTopic, &taken.Message, "", trouble.Err.Error(),
		trouble.Kind == kafka.KindRecordTooLarge)
	f.parked = append(f.parked, taken)
}

// unpark hands over what waits for the dead-letter topic.
func (f *flow) unpark() error {
	for len(f.parked) > 0 {
		status, err := f.publisher.Append(&f.parked[0].Message, f.parked[0].Tx)
		switch {
		case err != nil:
			return &StopError{Reason: "the dead-letter topic cannot take a record", Err: err}
		case status == kafka.Suppressed:
			f.window.Acked(f.parked[0].Tx, 1)
		case status != kafka.Appended:
			return nil
		}
		f.progress.buried()
		f.parked = f.parked[1:]
	}
	return nil
}
