package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// The last events are listed, the newest first, with the latency once they are confirmed.
func TestRecentEvents(t *testing.T) {
	var r recent
	start := time.Unix(1_800_000_000, 0)
	offer := func(i int, now time.Time) {
		r.turn(now)
		m := router.Message{Topic: "t", Key: []byte(fmt.Sprint("k", i)), Identity: lsn.Identity{Commit: lsn.Start(100 * i), Time: start.UnixMicro()}}
		r.offer(&m, []byte("Created"))
	}
	for i := 1; i <= maxRecentEvents+5; i++ {
		offer(i, start.Add(time.Duration(i)*recentInterval))
	}
	offer(1000, start.Add((maxRecentEvents+5)*recentInterval)) // too soon behind the last one
	events, _ := r.list()
	if len(events) != maxRecentEvents || events[0].Key != "k35" || events[29].Key != "k6" || events[0].Type != "Created" || events[0].Latency != nil {
		t.Fatalf("%d events, %+v", len(events), events[0])
	}
	r.settle(lsn.End(3001), start.Add(2*time.Second))
	events, _ = r.list()
	if events[4].Latency != nil || events[5].Latency == nil || *events[5].Latency != 2 || r.waiting != 5 {
		t.Errorf("after 30 were confirmed: %+v, %+v, %d wait", events[4], events[5], r.waiting)
	}
	if raced {
		return
	}
	m := router.Message{Topic: "t", Key: []byte("key")}
	n := testing.AllocsPerRun(100, func() {
		r.due = true
		r.offer(&m, m.Key)
		r.settle(lsn.End(1<<40), start)
	})
	if n != 0 {
		t.Errorf("an event costs %v allocations", n)
	}
}

// What can be no JSON, and what is long, is cut.
func TestRecentEventIsReadable(t *testing.T) {
	r := recent{due: true}
	m := router.Message{Key: append([]byte{0xff, 'k'}, make([]byte, 100)...)}
	r.offer(&m, nil)
	events, _ := r.list()
	if key := events[0].Key; len([]rune(key)) != recentPart || key[:4] != "�k" {
		t.Errorf("key %q", key)
	}
}

// The same error again is one entry; the oldest goes.
func TestRecentErrors(t *testing.T) {
	var r recent
	start := time.Unix(0, 0)
	for i := range 60 {
		r.failed(Starting, fmt.Sprint("error ", i/2), start.Add(time.Duration(i)*time.Second))
	}
	_, errors := r.list()
	if len(errors) != maxRecentErrors || errors[0].Text != "error 29" || errors[0].At != start.Add(59*time.Second) || errors[19].Text != "error 10" {
		t.Errorf("%d errors, %+v, %+v", len(errors), errors[0], errors[len(errors)-1])
	}
}
