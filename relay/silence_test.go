package relay

import (
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// Connections that end by the server's patience, without having brought anything, lead to more of it.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := patience{timeout: time.Minute}
	for i, c := range []struct {
		lasted   time.Duration
		progress bool
		want     time.Duration
	}{
		{time.Minute, false, time.Minute},
		{time.Minute, true, time.Minute}, // begins anew
		{time.Minute, false, time.Minute},
		{time.Second, false, time.Minute}, // ended for another reason
		{time.Minute, false, time.Minute},
		{59 * time.Second, false, 4 * time.Minute},
		{time.Minute, false, 4 * time.Minute},
		{4 * time.Minute, false, 4 * time.Minute},
		{5 * time.Minute, false, 16 * time.Minute},
		{16 * time.Minute, false, 16 * time.Minute},
		{16 * time.Minute, false, time.Hour},
		{time.Hour, false, time.Hour},
		{time.Hour, false, time.Hour},
	} {
		if p.ended(c.lasted, c.progress); p.timeout != c.want {
			t.Errorf("%d: %v, want %v", i, p.timeout, c.want)
		}
	}
}

// The monitor sees whether our own walsender is at work.
func TestWalsenderIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	began := time.Now()
	r := w.start(w.config())
	r.state(Streaming)
	eventually(t, "the walsender is seen", func() bool { return r.progress.walsender().After(began) })
	standby := w.start(w.config())
	standby.state(Standby)
	if seen := standby.progress.walsender(); seen.After(began) {
		t.Errorf("a standby has seen a walsender of its own at %v", seen)
	}
}
