package faultconn

import (
	"sync"
	"time"
)

// Faults steers all connections of a Dialer or a Proxy. The zero value lets everything pass.
type Faults struct {
	mu      sync.Mutex
	conns   map[*conn]struct{} // open ones
	dials   int
	refuse  bool
	stalled chan struct{} // closed by Release; nil when not stalled
	delay   [2]time.Duration
	armed   [2]trigger
}

// direction is that of the bytes, as the client sees it.
type direction int

const (
	read direction = iota
	write
)

// trigger makes something happen to the one connection that carries the last of left bytes.
type trigger struct {
	left   int64
	effect effect
}

type effect int

const (
	none effect = iota
	cut
	silence
)

// Cut breaks all open connections: both sides see the end, and blocked calls return.
func (f *Faults) Cut() {
	f.mu.Lock()
	open := make([]*conn, 0, len(f.conns))
	for c := range f.conns {
		open = append(open, c)
	}
	f.mu.Unlock()
	for _, c := range open {
		c.cut()
	}
}

// CutAfterRead breaks the connection that reads the n-th byte from now on, right after it (n of at least 1, counted over
// all connections). It happens once; connections made later live.
func (f *Faults) CutAfterRead(n int64) { f.arm(read, trigger{n, cut}) }

// CutAfterWrite is CutAfterRead for written bytes: the server gets exactly n of them.
func (f *Faults) CutAfterWrite(n int64) { f.arm(write, trigger{n, cut}) }

// SilenceAfterRead makes the connection that reads the n-th byte from now on deliver nothing more: it stays open, writes
// go through, but the answers are lost. It happens once.
func (f *Faults) SilenceAfterRead(n int64) { f.arm(read, trigger{n, silence}) }

// Disarm takes back CutAfterRead, CutAfterWrite and SilenceAfterRead where they have not happened yet.
func (f *Faults) Disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = [2]trigger{}
}

func (f *Faults) arm(d direction, t trigger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed[d] = t
}

// Stall lets no byte pass in either direction on present and future connections until Release. Deadlines still work.
func (f *Faults) Stall() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalled == nil {
		f.stalled = make(chan struct{})
	}
}

// Release ends Stall. No byte is lost.
func (f *Faults) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalled != nil {
		close(f.stalled)
		f.stalled = nil
	}
}

// Delay makes each Read return that much later and each Write begin that much later.
func (f *Faults) Delay(read, write time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = [2]time.Duration{read, write}
}

// Refuse makes new connections fail (with a Proxy: end at once), or allows them again.
func (f *Faults) Refuse(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = on
}

// Dials counts the attempts to connect so far, refused ones too.
func (f *Faults) Dials() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

// Open counts the open connections.
func (f *Faults) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// dialing counts an attempt and tells whether it is allowed.
func (f *Faults) dialing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials++
	return !f.refuse
}

func (f *Faults) add(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns == nil {
		f.conns = map[*conn]struct{}{}
	}
	f.conns[c] = struct{}{}
}

func (f *Faults) remove(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// gate is nil, or a channel that Release closes.
func (f *Faults) gate() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stalled
}

func (f *Faults) delayOf(d direction) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delay[d]
}

// carry accounts for up to n bytes in a direction: so many may pass, and then the effect happens to the connection.
func (f *Faults) carry(d direction, n int) (int, effect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.armed[d]
	if t.effect == none {
		return n, none
	}
	if int64(n) < t.left {
		t.left -= int64(n)
		return n, none
	}
	n, happens := int(t.left), t.effect
	*t = trigger{}
	return n, happens
}
