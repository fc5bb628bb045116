package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/router"
)

func TestIdleLanesEnd(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		for i := range 3 {
			h.send("orders", "a", i*10, i*10+10)
			h.flush()
			if n := h.p.Stats().Lanes; n == 0 {
				t.Error("no lane after sending")
			}
			time.Sleep(2 * laneIdle)
			if n := h.p.Stats().Lanes; n != 0 {
				t.Errorf("%d lanes after %v without work", n, 2*laneIdle)
			}
			if n := h.p.pool.kept + h.p.pool.out; n != 0 {
				t.Errorf("%d bytes of buffers kept", n)
			}
		}
		h.flushAndAudit()
	})
}

// A broker that closes idle connections costs one attempt, and no pause.
func TestConnectionClosedWhileIdle(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		h.send("orders", "a", 0, 10)
		h.flush()
		time.Sleep(time.Minute)
		h.network.cut(func(string) bool { return true })
		began := time.Now()
		h.send("orders", "a", 10, 20)
		h.flushAndAudit()
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// A slow follower holds up the partitions of its request only, and a broker never has more than four requests.
func TestSlowPartitionDoesNotHoldUpOthers(t *testing.T) {
	inBubble(t, 1, []kfake.Opt{kfake.SeedTopics(8, "orders")}, nil, func(h *harness) {
		put := func(partition int32) {
			h.append(&router.Message{Topic: "orders", Value: []byte("v"), Partition: partition})
		}
		for i := range int32(8) {
			put(i)
		}
		h.flush()
		var mu sync.Mutex
		slow := 0
		release := make(chan struct{})
		h.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
			h.cluster.KeepControl()
			if p := r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Partition; p < 6 {
				mu.Lock()
				slow++
				mu.Unlock()
				h.cluster.SleepControl(func() { <-release })
			}
			return nil, nil, false
		})
		put(0)
		time.Sleep(time.Second)
		for range 20 {
			began := time.Now()
			put(7)
			h.until("partition 7 goes on", func() bool { return h.p.Stats().InFlightRecords == 1 })
			if took := time.Since(began); took > 2*spreadAge {
				t.Errorf("took %v beside a slow request", took)
			}
		}
		for i := range int32(5) {
			put(i + 1)
			time.Sleep(time.Second)
		}
		mu.Lock()
		if slow != maxLanes {
			t.Errorf("%d requests under way, want %d", slow, maxLanes)
		}
		mu.Unlock()
		close(release)
		h.flushAndAudit()
	})
}

func TestOnBatch(t *testing.T) {
	var mu sync.Mutex
	var acks []BatchAck
	onBatch := func(a BatchAck) {
		mu.Lock()
		defer mu.Unlock()
		acks = append(acks, a)
	}
	inBubble(t, 1, orders(), func(cfg *Config) { cfg.OnBatch = onBatch }, func(h *harness) {
		h.append(&router.Message{Topic: "orders", Value: []byte("0"), Time: 1000})
		h.flush()
		trouble := h.fault(kfake.Fault{Err: kerr.NotEnoughReplicas, Count: -1})
		h.append(&router.Message{Topic: "orders", Value: []byte("1"), Time: 2000})
		time.Sleep(time.Millisecond) // it is on its way; what follows is in the next batch
		h.append(&router.Message{Topic: "orders", Value: []byte("2"), Time: 3000})
		h.append(&router.Message{Topic: "orders", Value: []byte("3"), Time: 2500})
		time.Sleep(2 * time.Second)
		trouble.Remove()
		h.flushAndAudit()
		mu.Lock()
		defer mu.Unlock()
		type figures struct {
			Records         int
			Oldest          int64
			Waited, Retried bool
		}
		var got []figures
		for _, a := range acks {
			if a.Topic != "orders" || a.Partition != 0 || a.Bytes < batchOverhead {
				t.Errorf("%+v", a)
			}
			got = append(got, figures{a.Records, a.Oldest, a.Queue > time.Second, a.Produce > time.Second})
		}
		want := []figures{{1, 1000, false, false}, {1, 2000, false, true}, {2, 2500, true, false}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}
