package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is something that can happen.
type fault struct {
	name string
	// subject is what it happens to, one or more words; in a cycle something happens to each of them once at most.
	subject string
	weight  int
	// happen does it and mends it. It begins at the strike's moment.
	happen func(context.Context, *arena, strike) error
}

// faults are all there are.
var faults = []fault{
	{"kill relay", "relay", 16, killRelay},
	{"kill relay, and its successors", "relay", 10, killRelays},
	{"kill relay beside a standby", "relay", 8, killBesideStandby},
	{"freeze relay, another takes over", "relay", 8, freezeRelay},
	{"freeze brokers, kill relay", "relay kafka", 10, killUnacknowledged},
	{"stop relay", "relay", 4, stopRelay},

	{"kill Postgres", "postgres", 5, killPostgres},
	{"restart Postgres, fast", "postgres", 4, restartFast},
	{"restart Postgres, immediate", "postgres", 4, restartImmediate},

	{"kill brokers", "kafka", 5, killBrokers},
	{"restart brokers", "kafka", 3, restartBrokers},
	{"freeze brokers", "kafka", 8, freezeBrokers},
	{"slow broker", "kafka", 5, slowBroker},

	{"cut Postgres", "wire-to-Postgres", 3, cutPostgres},
	{"cut Postgres inside a message", "wire-to-Postgres", 3, cutPostgresInside},
	{"stall Postgres", "wire-to-Postgres", 3, stallPostgres},
	{"refuse Postgres", "wire-to-Postgres", 2, refusePostgres},
	{"cut Kafka", "wire-to-Kafka", 3, cutKafka},
	{"cut Kafka inside a request", "wire-to-Kafka", 3, cutKafkaInsideRequest},
	{"cut Kafka inside an answer", "wire-to-Kafka", 3, cutKafkaInsideAnswer},
	{"lose answers of Kafka", "wire-to-Kafka", 3, silenceKafka},
	{"stall Kafka", "wire-to-Kafka", 3, stallKafka},
	{"delay Kafka", "wire-to-Kafka", 2, delayKafka},

	{"end the walsender", "slot", 4, endWalsender},
	{"take the slot", "slot", 6, takeSlot},

	{"100,000 rows", "load", 2, burst},
}

// strike is a fault of a cycle.
type strike struct {
	fault
	at, lasts time.Duration
	// brokers are those that it happens to, if to any.
	brokers []int32
	// dice is a number for what else there is to choose, from 0 to 1.
	dice float64
}

func (s strike) String() string {
	text := fmt.Sprintf("%s at %d ms for %d ms", s.name, s.at.Milliseconds(), s.lasts.Milliseconds())
	if strings.Contains(strings.ToLower(s.subject), "kafka") {
		text += fmt.Sprintf(" on %v", s.brokers)
	}
	return text
}

// A strike begins and lasts so long at most; twice as long where there are several, so that they meet.
const (
	latest  = 700 * time.Millisecond
	longest = 1000 * time.Millisecond
)

// plan is what happens in a cycle: one strike in half of them, else two or three.
func plan(rng *rand.Rand, brokers int) []strike {
	n := []int{1, 1, 1, 1, 1, 2, 2, 2, 3, 3}[rng.IntN(10)]
	scale := time.Duration(min(n, 2))
	var strikes []strike
	taken := map[string]bool{}
	for len(strikes) < n {
		f := draw(rng, taken)
		for word := range strings.FieldsSeq(f.subject) {
			taken[word] = true
		}
		strikes = append(strikes, strike{
			fault:   f,
			at:      time.Duration(rng.Int64N(int64(latest))) * scale,
			lasts:   50*time.Millisecond + time.Duration(rng.Int64N(int64(longest)))*scale,
			brokers: someBrokers(rng, brokers),
			dice:    rng.Float64(),
		})
	}
	return strikes
}

// draw takes a fault by weight, of subjects that are free.
func draw(rng *rand.Rand, taken map[string]bool) fault {
	var free []fault
	sum := 0
	for _, f := range faults {
		if !slices.ContainsFunc(strings.Fields(f.subject), func(word string) bool { return taken[word] }) {
			free = append(free, f)
			sum += f.weight
		}
	}
	dice := rng.IntN(sum)
	for _, f := range free {
		if dice -= f.weight; dice < 0 {
			return f
		}
	}
	panic("the weights do not add up")
}

// someBrokers is mostly one, sometimes two or all.
func someBrokers(rng *rand.Rand, brokers int) []int32 {
	var some []int32
	n := []int{1, 1, 1, 1, 1, 1, 1, 2, 2, 3}[rng.IntN(10)]
	for _, id := range rng.Perm(brokers)[:min(n, brokers)] {
		some = append(some, int32(id+1))
	}
	return some
}

func describe(strikes []strike) string {
	var texts []string
	for _, s := range strikes {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, "; ")
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
