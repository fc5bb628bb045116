package relay

import (
	"strings"
	"sync"
	"time"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// RecentEvent is one of the last events that were handed to the producer. It has no payload.
type RecentEvent struct {
	Topic string `json:"topic"`
	// Key and Type are the beginnings of the key and of the event type; under load not every event is listed.
	Key  string `json:"key"`
	Type string `json:"type,omitempty"`
	// LSN is the start of its transaction's commit record, Event its identity, and Committed the time of the commit.
	LSN       string    `json:"lsn"`
	Event     string    `json:"event"`
	Committed time.Time `json:"committed"`
	// Latency is the time from the commit to the confirmed acknowledgement, in seconds; null: not yet.
	Latency *float64 `json:"latency_seconds"`
}

// RecentError is something that went wrong, with its remedy in the text where there is one.
type RecentError struct {
	At    time.Time `json:"at"`
	State State     `json:"state"`
	Text  string    `json:"text"`
}

const (
	maxRecentEvents = 30
	maxRecentErrors = 20
	// recentPart is how much of a key or type is shown, in bytes.
	recentPart = 64
	// recentInterval is between two events that are listed.
	recentInterval = 20 * time.Millisecond
)

// recent keeps the last events and errors. The reader offers and settles, anybody lists; it allocates nothing for an event.
type recent struct {
	due  bool // the next event is to be listed; the reader's
	last time.Time

	mu      sync.Mutex
	events  [maxRecentEvents]listed // a ring
	next    int
	waiting int // are not acknowledged
	errors  []RecentError
}

// listed is an event in the ring. Its buffers are used again.
type listed struct {
	topic     string
	key, kind []byte
	identity  lsn.Identity
	latency   time.Duration
	state     byte // 0 empty, 1 waits, 2 acknowledged
}

// turn tells that some time has passed.
func (r *recent) turn(now time.Time) {
	if !r.due && now.Sub(r.last) >= recentInterval {
		r.due, r.last = true, now
	}
}

// offer takes an event that was handed to the producer.
func (r *recent) offer(m *router.Message, kind []byte) {
	if !r.due {
		return
	}
	r.due = false
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.events[r.next]
	r.next = (r.next + 1) % maxRecentEvents
	if e.state == 1 {
		r.waiting--
	}
	r.waiting++
	e.topic, e.identity, e.state = m.Topic, m.Identity, 1
	e.key = append(e.key[:0], m.Key[:min(len(m.Key), recentPart)]...)
	e.kind = append(e.kind[:0], kind[:min(len(kind), recentPart)]...)
}

// settle gives events that the confirmed position covers their latency.
func (r *recent) settle(confirmed lsn.End, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 {
		return
	}
	for i := range r.events {
		if e := &r.events[i]; e.state == 1 && e.identity.Commit.CoveredBy(confirmed) {
			e.state, e.latency = 2, max(0, now.Sub(time.UnixMicro(e.identity.Time)))
			r.waiting--
		}
	}
}

// failed takes note of an error. The same one again and again is one entry, with the time of the last.
func (r *recent) failed(state State, text string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.errors); n > 0 && r.errors[n-1].Text == text {
		r.errors[n-1].At = now
		return
	}
	if len(r.errors) == maxRecentErrors {
		r.errors = append(r.errors[:0], r.errors[1:]...)
	}
	r.errors = append(r.errors, RecentError{now, state, text})
}

// list gives both, the newest first.
func (r *recent) list() ([]RecentEvent, []RecentError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, errors := []RecentEvent{}, []RecentError{}
	for i := range maxRecentEvents {
		e := &r.events[(r.next+maxRecentEvents-1-i)%maxRecentEvents]
		if e.state == 0 {
			break
		}
		event := RecentEvent{
			Topic: e.topic, Key: readable(e.key), Type: readable(e.kind), LSN: lsn.End(e.identity.Commit).String(),
			Event: e.identity.String(), Committed: time.UnixMicro(e.identity.Time).UTC(),
		}
		if e.state == 2 {
			seconds := e.latency.Seconds()
			event.Latency = &seconds
		}
		events = append(events, event)
	}
	for i := range r.errors {
		errors = append(errors, r.errors[len(r.errors)-1-i])
	}
	return events, errors
}

// readable is a text that JSON can have.
func readable(b []byte) string { return strings.ToValidUTF8(string(b), "�") }
