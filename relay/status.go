package relay

import (
	"time"

	"github.com/walrelay/walrelay/lsn"
)

// Status is what the relay says of itself.
type Status struct {
	// State is what it is doing, Since when, and Reason why where that is not plain.
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Live: the loop turns. Ready: it streams and is caught up or advancing, or waits as hot standby.
	Live  bool `json:"live"`
	Ready bool `json:"ready"`
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
	// InFlight is the number of messages that the producer has and Kafka has not acknowledged.
	InFlight int64 `json:"in_flight"`
	// RetainedBytes is the log that the slot makes the server keep.
	RetainedBytes uint64 `json:"retained_bytes"`
}

const (
	// deadAfter is how long the loop may be still before liveness fails. The loop turns at least at every
	// status, 10 s.
	deadAfter = time.Minute
	// stuckAfter is how long events may wait without a single acknowledgement before readiness fails.
	stuckAfter = 30 * time.Second
)

func (p *progress) status(slot slotView, now time.Time) Status {
	state, since, reason := p.now()
	if state == Streaming && p.drained() {
		state = Drained
	}
	s := Status{
		State: state, Since: since, Reason: reason,
		Slot:          slot.name,
		Received:      lsn.End(p.receivedEnd.Load()).String(),
		Confirmed:     lsn.End(p.confirmed.Load()).String(),
		Saved:         lsn.End(p.saved.Load()).String(),
		InFlight:      p.messages.Load(),
		RetainedBytes: slot.retained,
		Live:          p.live(state, now),
		Ready:         p.ready(state, reason, now),
	}
	if end := max(slot.walEnd, p.receivedEnd.Load()); end > p.confirmed.Load() && p.confirmed.Load() > 0 {
		s.LagBytes = end - p.confirmed.Load()
	}
	if oldest := p.oldest.Load(); oldest != 0 {
		s.LagSeconds = max(0, now.Sub(time.UnixMicro(oldest)).Seconds())
	}
	return s
}

func (p *progress) live(state State, now time.Time) bool {
	return state != Streaming && state != Drained && state != Halted && state != Paused || now.Sub(time.Unix(0, p.turned.Load())) < deadAfter
}

func (p *progress) ready(state State, reason string, now time.Time) bool {
	switch state {
	case Standby:
		return true
	case Streaming, Drained:
		waiting := p.messages.Load() > 0 && now.Sub(time.Unix(0, p.acked.Load())) > stuckAfter
		return p.live(state, now) && reason == "" && !waiting
	}
	return false
}
