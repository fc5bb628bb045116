package relay

import (
	"context"
	"slices"
	"time"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// comeback is an event on its way back to its topic.
type comeback struct {
	message router.Message // owns its bytes
	place   lsn.Identity
	name    string // for a person
	already bool   // its topic has it
	newer   bool   // its topic has a newer event of its key
}

// comebackMargin is how much earlier than the oldest event topics are read from: clocks are set.
const comebackMargin = 5 * time.Minute

// leaveOut looks what the topics have, and leaves out what is there already, and what has been overtaken. An earlier replay
// that was killed cannot put anything there behind the look.
func (r *replay) leaveOut(ctx context.Context) error {
	byPlace := make(map[lsn.Identity]*comeback, len(r.events))
	byKey := make(map[string][]*comeback)
	var topics []string
	since := time.Now()
	for _, e := range r.events {
		byPlace[e.place] = e
		if e.message.Key != nil {
			key := e.message.Topic + "\x00" + string(e.message.Key)
			byKey[key] = append(byKey[key], e)
		}
		if !slices.Contains(topics, e.message.Topic) {
			topics = append(topics, e.message.Topic)
		}
		if at := time.UnixMicro(e.place.Time).Add(-comebackMargin); at.Before(since) {
			since = at
		}
	}
	if r.cfg.ownTime() {
		since = time.Time{}
	}
	if !r.o.DryRun {
		if _, err := r.reader.Fence(ctx, topics); err != nil {
			return err
		}
	}
	r.reader.Progress = r.told("reading topics")
	err := r.reader.Read(ctx, topics, since, func(record *kafka.Record) error {
		place, known := audit.PlaceOf(record)
		if e := byPlace[place]; known && e != nil && e.message.Topic == record.Topic {
			e.already = true
		}
		for _, e := range byKey[record.Topic+"\x00"+string(record.Key)] {
			if record.Key != nil && overtakes(record, place, known, e) {
				e.newer = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.events = slices.DeleteFunc(r.events, r.leftOut)
	return nil
}

// leftOut tells whether the event is not to be published, and takes note of that.
func (r *replay) leftOut(e *comeback) bool {
	switch {
	case e.already:
		r.report.Already++
		return true
	case e.newer && !r.o.AllowStale:
		r.report.stale(e.name)
		return true
	}
	return false
}

// overtakes tells whether a record of the event's key is of a newer event. Where a record does not tell its place, its time
// decides.
func overtakes(record *kafka.Record, place lsn.Identity, known bool, e *comeback) bool {
	if known && place.Source == e.place.Source {
		return follows(place, e.place) > 0
	}
	at := time.UnixMilli(record.Time)
	for _, h := range record.Headers {
		if string(h.Name) == router.HeaderTime {
			if original, err := time.Parse(router.TimeFormat, string(h.Value)); err == nil {
				at = original
			}
		}
	}
	return at.After(time.UnixMicro(e.place.Time))
}

// told gives a function for progress in records.
func (r *replay) told(step string) func(done, total int64) {
	return func(done, total int64) {
		if r.o.Progress != nil {
			r.o.Progress(audit.Progress{Step: step, Done: done, Total: total})
		}
	}
}

// hand gives the events to the producer, in their order, and waits for the acknowledgements.
func (r *replay) hand(ctx context.Context, p *kafka.Producer) error {
	done := r.told("publishing")
	for i, e := range r.events {
		e.message.Time = time.Now().UnixMilli()
		for {
			status, err := p.Append(&e.message, uint64(i))
			if isPoison(err) {
				r.report.impossible(e.name, err.Error())
				break
			}
			if err != nil {
				return err
			}
			if status == kafka.Appended {
				r.report.Replayed++
				break
			}
			if err := r.await(ctx, p); err != nil {
				return err
			}
		}
		done(r.report.Replayed, int64(len(r.events)))
	}
	for !p.Flushed() {
		if err := r.await(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// await lets go what was appended and waits until the producer has something to tell. A record that the brokers refuse is
// taken back, so that the others go on; what a topic lacks ends the replay, which can be repeated.
func (r *replay) await(ctx context.Context, p *kafka.Producer) error {
	if taken, refused := p.WithdrawRefused(); refused != nil {
		r.report.Replayed--
		r.report.impossible(r.events[taken.Tx].name, refused.Error())
		return nil
	}
	return audit.Await(ctx, p)
}
