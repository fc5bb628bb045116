package faultconn

import (
	"sync"
	"time"
)

// deadline is a point in time that can be moved while others wait for it.
type deadline struct {
	mu      sync.Mutex // held by set
	timer   *time.Timer
	expired chan struct{} // closed when the time has come
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// set moves the deadline; the zero time is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer has fired: let it close the channel
	}
	d.timer = nil
	select {
	case <-d.expired:
		d.expired = make(chan struct{})
	default: // those who wait already follow the new time
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(expired) })
	} else {
		close(expired)
	}
}

// wait is closed when the time has come.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}
