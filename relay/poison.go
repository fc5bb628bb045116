package relay

import (
	"context"
	"errors"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/router"
)

// isPoison tells whether an error is a property of one event alone: nothing but a person, or the dead-letter topic,
// helps it.
func isPoison(err error) bool {
	if err == nil { // without an allocation
		return false
	}
	var kafkaPoison *kafka.PoisonError
	var routerPoison *router.PoisonError
	return errors.As(err, &kafkaPoison) || errors.As(err, &routerPoison)
}

// poisoned meets an event that can never be published as it is; f.message has what could be made of it. It goes to the
// dead-letter topic where there is one. Otherwise the relay halts: nothing overtakes the event, the slot keeps the
// log, and a person decides. Any other error ends the stream.
func (f *flow) poisoned(ctx context.Context, source *route, err error) error {
	if !isPoison(err) {
		return err
	}
	if topic := f.deadLetterTopic(source.lot); topic != "" {
		return f.bury(ctx, topic, source, err)
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

// deadLetterTopic is where poison of a lot goes; empty: the relay halts.
func (f *flow) deadLetterTopic(lot uint64) string {
	if lot == lotOfMessages {
		return f.cfg.Messages.DeadLetterTopic
	}
	return f.cfg.DeadLetterTopic
}

// bury publishes the event to the dead-letter topic. It counts as a message of its transaction, so that nothing is
// confirmed before it is acknowledged there.
func (f *flow) bury(ctx context.Context, topic string, source *route, why error) error {
	f.message.Identity = f.identity
	dead := f.deadLetter(topic, &f.message, why.Error(), f.origin(source))
	for {
		status, err := f.append(&dead, source.lot)
		if isPoison(err) && dead.Value != nil { // too large there as well
			dead = stub(&dead)
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

// refused meets a record that the producer has and the brokers refuse, which halts its partition: skipped by order, or
// buried. What is to be buried waits in f.parked until the producer takes it.
func (f *flow) refused(trouble kafka.Trouble) {
	if !trouble.OneRecord() {
		return
	}
	request, skip := f.orders.peek(trouble.Event)
	topic := f.deadLetterTopic(trouble.Tx & 1)
	if !skip && topic == "" {
		return
	}
	if !skip && trouble.Topic == topic && trouble.Kind == kafka.KindRecordRefused {
		return // the dead-letter topic itself does not take it, and will not take it again
	}
	taken, ok := f.publisher.Withdraw(trouble.Topic, trouble.Partition)
	if !ok {
		return
	}
	if skip {
		f.orders.skip(trouble.Event)
		f.progress.skipped(trouble.Event, request)
		f.window.Acked(taken.Tx>>1, 1)
		return
	}
	if trouble.Topic != topic { // else it is a dead letter already
		taken.Message = f.deadLetter(topic, &taken.Message, trouble.Err.Error(), router.Header{})
	}
	if trouble.Kind == kafka.KindRecordTooLarge {
		taken.Message = stub(&taken.Message)
	}
	f.parked = append(f.parked, taken)
}

// unpark hands over what waits for the dead-letter topic.
func (f *flow) unpark() error {
	for len(f.parked) > 0 {
		status, err := f.publisher.Append(&f.parked[0].Message, f.parked[0].Tx)
		switch {
		case err != nil:
			return &StopError{Code: fault.DeadLetter, Reason: "the dead-letter topic cannot take a record", Err: err}
		case status == kafka.Suppressed:
			f.window.Acked(f.parked[0].Tx>>1, 1)
		case status != kafka.Appended:
			return nil
		}
		f.progress.buried()
		f.parked = f.parked[1:]
	}
	return nil
}
