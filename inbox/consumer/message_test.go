package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

func TestIsMarker(t *testing.T) {
	key, value := []byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 7}
	for name, c := range map[string]struct {
		m    kafka.Message
		want bool
	}{
		"abort":         {kafka.Message{Key: key, Value: value}, true},
		"commit":        {kafka.Message{Key: []byte{0, 0, 0, 1}, Value: value}, true},
		"with a header": {kafka.Message{Key: key, Value: value, Headers: []kafka.Header{{Key: "id"}}}, false},
		"text":          {kafka.Message{Key: []byte("abcd"), Value: []byte("abcdef")}, false},
		"a number":      {kafka.Message{Key: []byte{0, 0, 0, 2}, Value: value}, false},
		"no value":      {kafka.Message{Key: key}, false},
	} {
		if got := isMarker(&c.m); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The messages of a key stay in one lane and in order, and none is lost.
func TestLanes(t *testing.T) {
	var all []Message
	for i := range 1000 {
		all = append(all, Message{Message: kafka.Message{Key: fmt.Append(nil, i%37), Offset: int64(i)}})
	}
	laneOf, last, seen := map[string]int{}, map[string]int64{}, 0
	for i, lane := range lanes(all, 8) {
		for _, m := range lane {
			key := string(m.Key)
			if other, known := laneOf[key]; known && (other != i || m.Offset <= last[key]) {
				t.Fatalf("key %s: lane %d after %d, offset %d after %d", key, i, other, m.Offset, last[key])
			}
			laneOf[key], last[key] = i, m.Offset
			seen++
		}
	}
	if seen != len(all) || len(laneOf) != 37 {
		t.Errorf("%d messages, %d keys", seen, len(laneOf))
	}
}

func TestBackoff(t *testing.T) {
	c := Config{MinBackoff: 100 * time.Millisecond, MaxBackoff: 3 * time.Second}
	for attempt, longest := range map[int]time.Duration{1: 100 * time.Millisecond, 3: 400 * time.Millisecond, 6: 3 * time.Second, 1000: 3 * time.Second} {
		seen := map[time.Duration]bool{}
		for range 100 {
			d := c.backoff(attempt)
			if seen[d] = true; d < longest/2 || d > longest {
				t.Errorf("attempt %d: %v", attempt, d)
			}
		}
		if len(seen) < 10 {
			t.Errorf("attempt %d: no jitter", attempt)
		}
	}
}
