package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRandomFaults lets everything go wrong at once: errors of every retriable kind, connections cut and answers lost,
// requests that arrive seconds late, brokers that cannot be reached or do not answer, leaders that move or are
// missing. Then every record must be in the log once and in order. A seed fixes the faults, not the goroutines.
func TestRandomFaults(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 0))
			configure := func(cfg *Config) {
				cfg.BatchBytes = 1<<10 + random.IntN(4<<10)
				cfg.RequestTimeout = 3 * time.Second
				cfg.MaxInFlightRecords = 20 + random.IntN(1000)
				cfg.MetadataMaxAge = time.Second
			}
			opts := []kfake.Opt{kfake.SeedTopics(4, "orders", "customers"), kfake.SeedTopics(1, "audit")}
			inBubble(t, 3, opts, configure, func(h *harness) {
				chaos := newChaos(h, random)
				h.pad = random.IntN(200)
				topics := []string{"orders", "customers", "audit"}
				next := map[string]int{}
				for range 3000 {
					topic, k := topics[random.IntN(3)], key(random.IntN(30))
					h.send(topic, k, next[topic+k], next[topic+k]+1)
					next[topic+k]++
					if random.IntN(10) == 0 {
						time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					}
				}
				chaos.stop()
				h.flush()
				time.Sleep(10 * time.Second) // what is late arrives
				h.flushAndAudit()
				t.Logf("%d faults; %+v", chaos.faults, h.p.Stats())
			})
		})
	}
}

// chaos does damage until it is stopped.
type chaos struct {
	h      *harness
	random *rand.Rand
	end    context.CancelFunc
	ended  chan struct{}
	faults int
}

func newChaos(h *harness, random *rand.Rand) *chaos {
	ctx, cancel := context.WithCancel(h.t.Context())
	c := &chaos{h: h, random: rand.New(rand.NewPCG(random.Uint64(), 1)), end: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for sleep(ctx, time.Duration(c.random.IntN(150))*time.Millisecond) {
			c.damage(ctx)
			c.faults++
		}
	}()
	return c
}

func (c *chaos) stop() {
	c.end()
	<-c.ended
}

var retriable = []*kerr.Error{
	kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.RequestTimedOut, kerr.NotEnoughReplicas,
	kerr.NotEnoughReplicasAfterAppend, kerr.UnknownTopicOrPartition, kerr.BrokerNotAvailable, kerr.NetworkException,
	kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.CorruptMessage,
}

func (c *chaos) damage(ctx context.Context) {
	h, r := c.h, c.random
	switch r.IntN(9) {
	case 0, 1:
		h.fault(kfake.Fault{Err: retriable[r.IntN(len(retriable))], Count: 1 + r.IntN(2), Partitions: []int32{int32(r.IntN(4))}})
	case 2:
		h.network.cutSome(r, 0.5)
	case 3:
		h.network.loseAnswers(1 + r.IntN(3))
	case 4:
		h.network.delayNext(time.Duration(r.IntN(8000)) * time.Millisecond)
	case 5:
		for _, topic := range []string{"orders", "customers"} {
			h.move(topic, int32(r.IntN(4)), int32(r.IntN(3)))
		}
	case 6:
		h.cluster.ShufflePartitionLeaders()
	case 7:
		port := fmt.Sprint(9092 + r.IntN(3))
		h.network.setRefused(port, true)
		h.network.cut(func(address string) bool { return portOf(address) == port })
		sleep(ctx, time.Duration(r.IntN(1500))*time.Millisecond)
		h.network.setRefused(port, false)
	case 8:
		leaderless := h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Partitions: []int32{int32(r.IntN(4))},
			Err: kerr.LeaderNotAvailable, Count: -1})
		sleep(ctx, time.Duration(r.IntN(1000))*time.Millisecond)
		leaderless.Remove()
	}
}
