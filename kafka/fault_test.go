package kafka

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// orders is a cluster's topic "orders" with one partition.
func orders() []kfake.Opt { return []kfake.Opt{kfake.SeedTopics(1, "orders")} }

// small makes every record a batch of its own.
func small(cfg *Config) { cfg.BatchBytes = 1 << 10 }

func (h *harness) fault(f kfake.Fault) *kfake.FaultHandle {
	if f.Keys == nil {
		f.Keys = []kmsg.Key{kmsg.Produce}
	}
	return h.cluster.Fault(f)
}

// TestFaultMatrix plays every fault that makes kafka-go's Writer lose, repeat or reorder records: one partition, six
// records, each a batch, all waiting when the fault comes. In each case the log must hold the six, in order, once.
func TestFaultMatrix(t *testing.T) {
	cases := []struct {
		name   string
		fault  func(*harness)
		within time.Duration // from the first Append to the last acknowledgement
	}{
		{"A not the leader, twice", func(h *harness) {
			h.fault(kfake.Fault{Err: kerr.NotLeaderForPartition, Count: 2})
		}, time.Second},
		{"B too few replicas for long", func(h *harness) {
			h.fault(kfake.Fault{Err: kerr.NotEnoughReplicas, Count: 30})
		}, 30 * time.Second},
		{"C2 broker not available", func(h *harness) {
			h.fault(kfake.Fault{Err: kerr.BrokerNotAvailable})
		}, time.Second},
		{"D no leader for three seconds", func(h *harness) {
			produce := h.fault(kfake.Fault{Err: kerr.NotLeaderForPartition, Count: -1})
			metadata := h.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Partitions: []int32{0},
				Err: kerr.LeaderNotAvailable, Count: -1})
			time.AfterFunc(3*time.Second, func() { produce.Remove(); metadata.Remove() })
		}, 3500 * time.Millisecond},
		{"E timed out after the append, twice", func(h *harness) {
			h.fault(kfake.Fault{Err: kerr.RequestTimedOut, Count: 2})
		}, time.Second},
		{"E too few replicas after the append", func(h *harness) {
			h.fault(kfake.Fault{Err: kerr.NotEnoughReplicasAfterAppend})
		}, time.Second},
		{"F connection dies after the append", func(h *harness) { h.network.loseAnswers(1) }, time.Second},
		{"F connections die after each of four appends", func(h *harness) { h.network.loseAnswers(4) }, 2 * time.Second},
		{"G delayed write of a request given up", func(h *harness) { h.network.delayNext(3 * time.Second) }, 2 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			configure := func(cfg *Config) {
				small(cfg)
				cfg.RequestTimeout = time.Second
			}
			inBubble(t, 1, orders(), configure, func(h *harness) {
				h.send("orders", "a", 0, 1) // the topic is known, the connection open
				h.flush()
				h.pad = 900
				c.fault(h)
				began := time.Now()
				h.send("orders", "a", 1, 7)
				h.flush()
				if took := time.Since(began); took > c.within {
					t.Errorf("took %v, want at most %v", took, c.within)
				}
				time.Sleep(5 * time.Second) // what is delayed arrives
				h.flushAndAudit()
			})
		})
	}
}

// TestDelayedWriteArrives makes sure that row G does what it says: the delayed request reaches the broker after all
// others, and the broker refuses it or knows it.
func TestDelayedWriteArrives(t *testing.T) {
	configure := func(cfg *Config) {
		small(cfg)
		cfg.RequestTimeout = time.Second
	}
	inBubble(t, 1, orders(), configure, func(h *harness) {
		h.pad = 900
		h.network.delayNext(3 * time.Second)
		h.send("orders", "a", 0, 20)
		h.flush()
		if h.network.late() != 0 {
			t.Fatal("the delayed request came before the others")
		}
		time.Sleep(5 * time.Second)
		if h.network.late() != 1 {
			t.Fatal("the delayed request never came")
		}
		h.flushAndAudit()
	})
}

// Brokers forget a batch of old records, and take it for a new one when it comes again: where its fate is not known, the
// session ends and the next one looks. Where nothing could look, a retry is right.
func TestOldBatchIsNotSentAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*harness)
		over  bool
	}{
		{"no answer", func(h *harness) { h.network.loseAnswers(1) }, true},
		{"timed out after the append", func(h *harness) { h.fault(kfake.Fault{Err: kerr.RequestTimedOut}) }, true},
		{"too few replicas after the append", func(h *harness) { h.fault(kfake.Fault{Err: kerr.NotEnoughReplicasAfterAppend}) }, true},
		{"certainly not appended", func(h *harness) { h.fault(kfake.Fault{Err: kerr.NotLeaderForPartition, Count: 3}) }, false},
	} {
		for age, over := range map[time.Duration]bool{forgetting - time.Hour: false, forgetting + time.Hour: c.over} {
			for _, without := range []string{"", "transactional id", "positions"} {
				t.Run(fmt.Sprintf("%s, %v old, without %s", c.name, age, without), func(t *testing.T) {
					configure := func(cfg *Config) {
						if without != "transactional id" {
							cfg.TransactionalID = "walrelay/test"
						}
					}
					inBubble(t, 1, orders(), configure, func(h *harness) {
						h.send("orders", "a", 0, 1)
						h.flush()
						c.fault(h)
						m := h.message("orders", "a", 1)
						m.Time -= age.Milliseconds()
						if without != "positions" {
							m.Headers = event("orders", 1).Headers
						}
						h.append(m)
						if over && without == "" {
							if err := h.waitOver(); err.Topic != "orders" || err.Code != 0 || !strings.Contains(err.Error(), "old records") {
								t.Errorf("got %v", err)
							}
							return
						}
						h.flushAndAudit()
					})
				})
			}
		}
	}
}

// Row C: nothing of the partition goes before a record that the broker refuses, and other partitions go on.
func TestRefusedRecordHaltsItsPartition(t *testing.T) {
	for _, c := range []struct {
		err  *kerr.Error
		kind Kind
	}{
		{kerr.MessageTooLarge, KindRecordTooLarge},
		{kerr.RecordListTooLarge, KindRecordTooLarge},
		{kerr.InvalidRecord, KindRecordRefused},
		{kerr.InvalidTimestamp, KindRecordRefused},
		{kerr.CorruptMessage, KindRecordRefused},
		{kerr.TopicAuthorizationFailed, KindTopicForbidden},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			opts := []kfake.Opt{kfake.SeedTopics(2, "orders")}
			inBubble(t, 1, opts, small, func(h *harness) {
				h.pad = 900
				refusal := h.fault(kfake.Fault{Topic: "orders", Partitions: []int32{0}, Err: c.err, Count: -1})
				// key-1 goes to partition 0, key-0 to partition 1
				if partitionOf([]byte(key(1)), 2) != 0 || partitionOf([]byte(key(0)), 2) != 1 {
					t.Fatal("the keys are not where this test wants them")
				}
				h.send("orders", key(1), 0, 1)
				h.until("the partition is halted", func() bool {
					trouble, ok := h.p.Trouble()
					return ok && trouble.Halted()
				})
				if status := h.offer(h.message("orders", key(1), 1)); status != Pending {
					t.Fatalf("a record behind the refused one is %v", status)
				}
				h.send("orders", key(0), 0, 6)
				time.Sleep(5 * time.Minute)
				if log := h.logs("orders"); len(log[0]) != 0 || len(log[1]) != 6 {
					t.Fatalf("log %v, want nothing in partition 0 and six records in partition 1", log)
				}
				trouble, _ := h.p.Trouble()
				if trouble.Kind != c.kind || trouble.Topic != "orders" || trouble.Partition != 0 || trouble.Remedy == "" {
					t.Errorf("trouble %+v", trouble)
				}

				refusal.Remove()
				h.send("orders", key(1), 1, 6)
				h.flushAndAudit()
				if trouble, ok := h.p.Trouble(); ok {
					t.Errorf("trouble %+v", trouble)
				}
			})
		})
	}
}

// A refused record inside a batch is found by halving: what stands before it is published, nothing behind it.
func TestRefusedRecordInsideABatch(t *testing.T) {
	opts := append(orders(), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "3000"}))
	inBubble(t, 1, opts, nil, func(h *harness) {
		pause := h.fault(kfake.Fault{Err: kerr.NotEnoughReplicas, Count: -1})
		h.send("orders", "a", 0, 100)
		h.pad = 4000
		h.append(h.message("orders", "a", 100))
		h.pad = 0
		h.send("orders", "a", 101, 200)
		pause.Remove()
		h.until("halted", func() bool { trouble, _ := h.p.Trouble(); return trouble.Halted() })
		if log := h.logs("orders")[0]; len(log) != 100 {
			t.Fatalf("%d records before the large one, want 100: %v", len(log), log)
		}
	})
}

// A broker's limit below ours: batches are split, and later ones are made smaller.
func TestBatchesAreSplit(t *testing.T) {
	opts := append(orders(), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "10000"}))
	inBubble(t, 1, opts, nil, func(h *harness) {
		h.pad = 300
		h.send("orders", "a", 0, 2000)
		h.flushAndAudit()
		splits := h.p.Stats().Splits
		if splits == 0 {
			t.Error("no batch was split")
		}
		h.send("orders", "a", 2000, 4000)
		h.flushAndAudit()
		if again := h.p.Stats().Splits; again != splits {
			t.Errorf("%d more splits, want smaller batches", again-splits)
		}
	})
}

// What leaves a batch's fate unknown ends the session, and nothing goes out behind it.
func TestUnknownFateEndsTheSession(t *testing.T) {
	for _, e := range []*kerr.Error{
		kerr.UnknownServerError, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch,
		kerr.ProducerFenced, kerr.ClusterAuthorizationFailed, kerr.InvalidRequest,
	} {
		t.Run(e.Message, func(t *testing.T) {
			inBubble(t, 1, orders(), small, func(h *harness) {
				h.send("orders", "a", 0, 3)
				h.flush()
				h.pad = 900
				h.fault(kfake.Fault{Err: e})
				for i := 3; i < 9; i++ {
					h.offer(h.message("orders", "a", i)) // some may come after the end
				}
				over := h.waitOver()
				if over.Code != e.Code || over.Topic != "orders" || over.Partition != 0 {
					t.Errorf("session error %+v, want code %d", over, e.Code)
				}
				if fenced := e == kerr.InvalidProducerEpoch || e == kerr.ProducerFenced; over.Fenced() != fenced {
					t.Errorf("fenced: %v", over.Fenced())
				}
				if status := h.offer(h.message("orders", "a", 9)); status != Pending {
					t.Errorf("Append after the end: %v", status)
				}
				if log := h.logs("orders")[0]; len(log) != 3 {
					t.Errorf("log %v, want the three records before", log)
				}
			})
		})
	}
}

// A producer that the broker knows with a newer epoch is fenced.
func TestFencedByANewerEpoch(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		h.send("orders", "a", 0, 3)
		h.flush()
		h.p.mu.Lock()
		h.p.session.epoch++ // as if another relay had been given the next epoch
		newer := h.p.session.identity
		h.p.topics["orders"].partitions[0].sequence = 0
		h.p.mu.Unlock()
		h.send("orders", "a", 3, 4)
		h.flush()
		h.p.mu.Lock()
		h.p.session.epoch = newer.epoch - 1
		h.p.mu.Unlock()
		h.send("orders", "a", 4, 5)
		if over := h.waitOver(); !over.Fenced() {
			t.Errorf("%v, want fenced", over)
		}
		if log := h.logs("orders")[0]; len(log) != 4 {
			t.Errorf("log %v, want nothing of the old epoch behind the new one", log)
		}
	})
}

// Row J.
func TestLeaderMoves(t *testing.T) {
	inBubble(t, 3, orders(), small, func(h *harness) {
		h.pad = 900
		for i := range 12 {
			h.send("orders", "a", i*5, i*5+5)
			h.move("orders", 0, int32(i%3))
			began := time.Now()
			h.send("orders", "a", i*5+5, i*5+5)
			h.flush()
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("move %d: %v", i, took)
			}
		}
		h.flushAndAudit()
		if h.p.Stats().LeaderChanges == 0 {
			t.Error("no leader change was seen")
		}
	})
}

func (h *harness) move(topic string, partition, to int32) {
	h.t.Helper()
	if err := h.cluster.MoveTopicPartition(topic, partition, to); err != nil {
		h.t.Fatal(err)
	}
}

// A broker that neither answers nor closes the connection: when another one leads, its batches go there.
func TestSilentBrokerIsLeft(t *testing.T) {
	inBubble(t, 3, orders(), nil, func(h *harness) {
		h.send("orders", "a", 0, 10)
		h.flush()
		silent := h.cluster.LeaderFor("orders", 0)
		h.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			h.cluster.KeepControl()
			return nil, nil, h.cluster.CurrentNode() == silent // no answer
		})
		h.send("orders", "a", 10, 20)
		time.Sleep(5 * time.Second)
		if trouble, ok := h.p.Trouble(); !ok || trouble.Kind != KindBlocked || trouble.Topic != "orders" {
			t.Errorf("trouble %+v", trouble)
		}
		h.move("orders", 0, (silent+1)%3)
		began := time.Now()
		h.flush()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v after the leader had moved", took)
		}
		h.flushAndAudit()
	})
}

// Brokers that cannot be reached are no error, at the start as later.
func TestUnreachableCluster(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		h.send("orders", "a", 0, 10)
		h.flush()
		h.network.setRefused("9092", true)
		h.network.cut(func(string) bool { return true })
		h.send("orders", "a", 10, 20)
		time.Sleep(time.Hour)
		trouble, ok := h.p.Trouble()
		if !ok || trouble.Kind != KindUnreachable || trouble.Halted() || time.Since(trouble.Since) < 59*time.Minute {
			t.Errorf("trouble %+v", trouble)
		}
		h.network.setRefused("9092", false)
		began := time.Now()
		h.flushAndAudit()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v after the broker was back", took)
		}
	})
}

func TestUnreachableAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, virtualNetwork())
		h.start(nil)
		if status := h.offer(h.message("orders", "a", 0)); status != Pending {
			t.Errorf("Append without brokers: %v", status)
		}
		time.Sleep(time.Minute)
		if trouble, ok := h.p.Trouble(); !ok || trouble.Kind != KindUnreachable || trouble.Err == nil {
			t.Errorf("trouble %+v", trouble)
		}
		var err error
		if h.cluster, err = kfake.NewCluster(kfake.Ports(9092), kfake.ListenFn(h.network.Listen), kfake.SeedTopics(1, "orders")); err != nil {
			t.Fatal(err)
		}
		defer h.cluster.Close()
		defer h.stop()
		h.send("orders", "a", 0, 10)
		h.flushAndAudit()
	})
}

// A batch that may be in the log is never split, even where the broker refuses it later: its halves would not be known
// for what they are.
func TestBatchOfUnknownFateIsNotSplit(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.MessageTooLarge, kerr.InvalidRecord} {
		t.Run(refusal.Message, func(t *testing.T) {
			inBubble(t, 1, orders(), nil, func(h *harness) {
				pause := h.fault(kfake.Fault{Err: kerr.NotEnoughReplicas, Count: -1})
				h.hold = true
				h.send("orders", "a", 0, 5) // one batch
				h.hold = false
				h.p.Send()
				h.fault(kfake.Fault{Err: kerr.NotEnoughReplicasAfterAppend, Count: 2})
				h.fault(kfake.Fault{Err: refusal, Count: -1})
				pause.Remove()
				if over := h.waitOver(); over.Code != refusal.Code || over.Reason == "" {
					t.Errorf("%v", over)
				}
				if s := h.p.Stats(); s.Splits != 0 {
					t.Errorf("%d splits", s.Splits)
				}
			})
		})
	}
}

// A batch that the broker calls corrupt after it may have been appended is sent again until it is known.
func TestCorruptAfterTheAppend(t *testing.T) {
	inBubble(t, 1, orders(), nil, func(h *harness) {
		h.send("orders", "a", 0, 1)
		h.flush()
		h.fault(kfake.Fault{Err: kerr.RequestTimedOut})
		h.fault(kfake.Fault{Err: kerr.CorruptMessage, Count: 20})
		h.send("orders", "a", 1, 5)
		h.flushAndAudit()
	})
}
