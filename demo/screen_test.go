package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLines shows what one record looks like.
func TestLines(t *testing.T) {
	t.Parallel()
	record := delivery{topic: "outbox.event.order", key: "17", eventType: "OrderPaid", payload: `{"name": "Müller"}`, latency: 1234 * time.Microsecond}
	for _, c := range []struct {
		name  string
		color bool
		width int
		print func(*screen)
		want  string
	}{
		{"a file", false, 0, func(s *screen) { s.deliver(record) },
			`   1.2 ms  outbox.event.order     17    OrderPaid       {"name": "Müller"}`},
		{"wide enough", false, 74, func(s *screen) { s.deliver(record) },
			`   1.2 ms  outbox.event.order     17    OrderPaid       {"name": "Müller"}`},
		{"too narrow", false, 73, func(s *screen) { s.deliver(record) },
			`   1.2 ms  outbox.event.order     17    OrderPaid       {"name": "Müller…`},
		{"no room at all", false, 20, func(s *screen) { s.deliver(record) },
			`   1.2 ms  outbox.event.order     17    OrderPaid       `},
		{"colours take no room", true, 73, func(s *screen) { s.deliver(record) },
			"   1.2 ms  \x1b[36moutbox.event.order   \x1b[0m  \x1b[33m17  \x1b[0m  \x1b[32mOrderPaid     \x1b[0m  {\"name\": \"Müller…"},
		{"again", true, 73, func(s *screen) { s.again(record) },
			"\x1b[31m    again  outbox.event.order     17    OrderPaid       {\"name\": \"Müller…\x1b[0m"},
		{"all well", true, 80, func(s *screen) { s.summary(summary{Inserted: 2, Delivered: 2, P50: 1.5, P99: 20}) },
			"\n\x1b[32minserted 2, delivered 2, lost 0, duplicated 0, reordered 0; commit to consumer p50 1.5 ms, p99 20 ms\x1b[0m"},
		{"not well", true, 80, func(s *screen) { s.summary(summary{Inserted: 2, Delivered: 2, Reordered: 1}) },
			"\n\x1b[31minserted 2, delivered 2, lost 0, duplicated 0, reordered 1; commit to consumer p50 0 ms, p99 0 ms\x1b[0m"},
	} {
		var out strings.Builder
		c.print(&screen{out: &out, color: c.color, width: func() int { return c.width }, topicWidth: len("outbox.event.customer")})
		if diff := cmp.Diff(c.want+"\n", out.String()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		values []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 50, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{1, 2}, 50, 1},
		{[]time.Duration{1, 2, 3}, 50, 2},
		{[]time.Duration{1, 2, 3}, 99, 3},
		{hundred, 50, 50},
		{hundred, 99, 99},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("percentile %d of %v = %d, want %d", c.p, c.values, got, c.want)
		}
	}
}
