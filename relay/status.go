package relay

import (
	"strings"
	"time"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
)

// Status is what the relay says of itself.
type Status struct {
	// State is what it is doing, Since when, and Reason why where that is not plain.
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Code is the kind of error that has stopped it, see docs/errors.md.
	Code fault.Code `json:"code,omitempty"`
	// Live: the loop turns. Ready: it streams and is caught up or advancing, or waits as hot standby.
	// Unready is why it is not ready.
	Live    bool   `json:"live"`
	Ready   bool   `json:"ready"`
	Unready string `json:"unready,omitempty"`
	// Slot is the slot's name.
	Slot string `json:"slot"`
	// Received, Confirmed and Saved are positions of the log: read on this connection, acknowledged by
	// Kafka without a gap, and written to the checkpoint row.
	Received  string `json:"received"`
	Confirmed string `json:"confirmed"`
	Saved     string `json:"saved"`
	// LagBytes is the log between the server's end and Confirmed; as of the last look at the server.
	LagBytes uint64 `json:"lag_bytes"`
	// LagSeconds is the age of the oldest unacknowledged transaction.
	LagSeconds float64 `json:"lag_seconds"`
	// Lag is how far each position is behind the server's end of log.
	Lag []Lag `json:"lag"`
	// InFlight is the number of messages that the producer has and Kafka has not acknowledged.
	InFlight int64 `json:"in_flight"`
	// RetainedBytes is the log that the slot makes the server keep.
	RetainedBytes uint64 `json:"retained_bytes"`
	// UnsavedSeconds is for how long the checkpoint row could not be written; 0 while it can.
	UnsavedSeconds float64 `json:"unsaved_seconds"`
	// RestartNeeded: the configuration was changed, and takes effect with a restart only.
	RestartNeeded bool `json:"restart_needed"`
	// PublicationChanged: rows may have been inserted that are not in the stream.
	PublicationChanged bool `json:"publication_changed"`
	// Trouble is the kind of what keeps records from getting through to Kafka; empty: nothing.
	Trouble kafka.Kind `json:"kafka_trouble,omitempty"`
	// DeadLetters and Skipped count events that were not published as they are.
	DeadLetters uint64 `json:"dead_letters"`
	Skipped     uint64 `json:"skipped"`
	// Server is what the server says of the slot; null before the first look.
	Server *SlotStatus `json:"server"`
	// Topics is what was published since the start.
	Topics []TopicStatus `json:"topics"`
	// Recent are the last events, and Errors what went wrong, the newest first.
	Recent []RecentEvent `json:"recent"`
	Errors []RecentError `json:"errors"`
}

// Lag is how far a position is behind the server's end of log: received, confirmed and saved as in Status, and slot, which
// the server itself has. Positions without events of ours are saved only now and then, so that saved and slot may stay up
// to 16 MiB behind an idle outbox.
type Lag struct {
	Position string  `json:"position"`
	Bytes    uint64  `json:"bytes"`
	Seconds  float64 `json:"seconds"`
}

const (
	// deadAfter is how long the loop may be still before liveness fails. The loop turns at least at every
	// status, 10 s.
	deadAfter = time.Minute
	// stuckAfter is how long events may wait without a single acknowledgement before readiness fails.
	stuckAfter = 30 * time.Second
)

// Status is what the relay says of itself now. Any goroutine may ask.
func (r *Relay) Status() Status {
	now := time.Now()
	view := *r.slot.Load()
	s := r.progress.status(now)
	s.Slot = view.name
	s.Server = view.status
	end := s.received
	if view.watch != nil {
		end = max(end, uint64(view.watch.End))
		s.RetainedBytes = uint64(max(0, view.watch.Retained))
	}
	s.Lag = r.lags(end, s, view)
	s.LagBytes = s.Lag[1].Bytes
	s.Topics = r.metrics.topics.list()
	s.Recent, s.Errors = r.progress.recent.list()
	if finding := view.finding(); s.Unready == "" && s.State == Streaming && finding.Level == SlotUnready {
		s.Unready = finding.Problem + "; " + finding.Remedy
	}
	s.Ready = s.Unready == ""
	return s.Status
}

// positions is a Status with the numbers that its texts are made of.
type positions struct {
	Status
	received, confirmed, saved uint64
}

func (p *progress) status(now time.Time) positions {
	state, since, reason := p.now()
	if state == Streaming && p.drained() {
		state = Drained
	}
	s := positions{received: p.receivedEnd.Load(), confirmed: p.confirmed.Load(), saved: p.saved.Load()}
	s.Status = Status{
		State: state, Since: since, Reason: reason, Code: p.stopped(),
		Received:           lsn.End(s.received).String(),
		Confirmed:          lsn.End(s.confirmed).String(),
		Saved:              lsn.End(s.saved).String(),
		InFlight:           p.messages.Load(),
		RestartNeeded:      p.restartNeeded.Load(),
		PublicationChanged: p.publicationChanged.Load(),
		Trouble:            p.trouble(),
		DeadLetters:        p.deadLetters.Load(),
		Skipped:            p.skips.Load(),
		Live:               p.live(state, now),
		Unready:            p.unready(state, reason, now),
	}
	if oldest := p.oldest.Load(); oldest != 0 {
		s.LagSeconds = max(0, now.Sub(time.UnixMicro(oldest)).Seconds())
	}
	if failing := p.saveFailing.Load(); failing != 0 {
		s.UnsavedSeconds = max(0, now.Sub(time.Unix(0, failing)).Seconds())
	}
	return s
}

// lags are in the order received, confirmed, saved, slot. What is not known yet is behind nothing.
func (r *Relay) lags(end uint64, s positions, view slotView) []Lag {
	now := time.Now()
	lag := func(name string, position uint64) Lag {
		if position == 0 || position >= end {
			return Lag{Position: name}
		}
		return Lag{Position: name, Bytes: end - position, Seconds: r.clock.age(position, now).Seconds()}
	}
	slot := uint64(0)
	if w := view.watch; w != nil && w.Unconfirmed > 0 {
		slot = uint64(w.End) - uint64(w.Unconfirmed)
	}
	return []Lag{lag("received", s.received), lag("confirmed", s.confirmed), lag("saved", s.saved), lag("slot", slot)}
}

func (p *progress) live(state State, now time.Time) bool {
	return state != Streaming && state != Drained && state != Halted && state != Paused || now.Sub(time.Unix(0, p.turned.Load())) < deadAfter
}

// unready is why the relay is not ready; empty: it is.
func (p *progress) unready(state State, reason string, now time.Time) string {
	switch {
	case state == Standby:
		return ""
	case state != Streaming && state != Drained || reason != "":
		return strings.TrimSuffix(string(state)+": "+reason, ": ")
	case !p.live(state, now):
		return "streaming: the relay's loop does not turn"
	case p.messages.Load() > 0 && now.Sub(time.Unix(0, p.acked.Load())) > stuckAfter:
		return "streaming: events wait, and Kafka has acknowledged none for half a minute"
	}
	return ""
}
