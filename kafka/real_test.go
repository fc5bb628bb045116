package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// onKafka runs a test with a harness on Apache Kafka.
func onKafka(t *testing.T, cluster *kafkatest.Cluster, configure func(*Config), test func(*harness)) {
	t.Helper()
	h := newHarness(t, realNetwork())
	h.real, h.addrs = cluster, cluster.Bootstrap()
	h.start(configure)
	defer h.stop()
	test(h)
}

func (h *harness) createTopic(topic string, partitions, replicas int, config map[string]string) {
	h.t.Helper()
	if err := h.real.CreateTopic(h.t.Context(), topic, partitions, replicas, config); err != nil {
		h.t.Fatal(err)
	}
}

// load sends records of 50 keys to a topic, about a thousand a second, until fault has returned and a little longer.
func (h *harness) load(topic string, fault func(context.Context) error) {
	h.t.Helper()
	done := make(chan error, 1)
	go func() { done <- fault(h.t.Context()) }()
	next := map[string]int{}
	left := -1 // rounds after the fault
	for i := 0; left != 0; i++ {
		k := key(i % 50)
		h.send(topic, k, next[k], next[k]+1)
		next[k]++
		if i%10 == 0 {
			select {
			case err := <-done:
				if err != nil {
					h.t.Fatal(err)
				}
				left = 1000
			case <-time.After(10 * time.Millisecond):
			}
		}
		if left > 0 {
			left--
		}
	}
	h.flushAndAudit()
	h.t.Logf("%d records: %+v", h.count(), h.p.Stats())
}

// Codecs, the end of the sequence numbers, splitting and topic creation, as Apache Kafka sees them.
func TestRealCodecs(t *testing.T) {
	cluster := kafkatest.Shared(t, 1)
	for _, codec := range []compress.Compression{compress.None, compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			configure := func(cfg *Config) {
				cfg.Compression = codec
				cfg.Topics = TopicConfig{Create: true, Partitions: 3}
			}
			onKafka(t, cluster, configure, func(h *harness) {
				h.pad = 300
				for i := range 1000 {
					h.send("codec-"+codec.String(), key(i), i, i+1)
				}
				h.flushAndAudit()
			})
		})
	}
}

func TestRealSequenceWraps(t *testing.T) {
	onKafka(t, kafkatest.Shared(t, 1), small, func(h *harness) {
		h.createTopic("wrap", 1, 1, nil)
		h.send("wrap", "a", 0, 1)
		h.flush()
		h.p.mu.Lock()
		h.p.session.identity = identity{id: 1 << 40} // unknown to the broker, which then takes any first sequence
		h.p.topics["wrap"].partitions[0].sequence = math.MaxInt32 - 20
		h.p.mu.Unlock()
		h.pad = 300 // three records in a batch
		h.send("wrap", "a", 1, 100)
		h.flushAndAudit()
		h.p.mu.Lock()
		defer h.p.mu.Unlock()
		if s := h.p.topics["wrap"].partitions[0].sequence; s != 78 {
			t.Errorf("sequence %d, want 78", s)
		}
	})
}

func TestRealSplit(t *testing.T) {
	configure := func(cfg *Config) { cfg.HaltRetry = 500 * time.Millisecond }
	onKafka(t, kafkatest.Shared(t, 1), configure, func(h *harness) {
		h.createTopic("split", 1, 1, map[string]string{"max.message.bytes": "20000"})
		h.pad = 300
		h.send("split", "a", 0, 2000)
		h.flushAndAudit()
		if s := h.p.Stats(); s.Splits == 0 {
			t.Errorf("%+v", s)
		}
		h.pad = 30_000
		h.send("split", "a", 2000, 2001)
		h.until("halted", func() bool { trouble, _ := h.p.Trouble(); return trouble.Kind == KindRecordTooLarge })
		trouble, _ := h.p.Trouble()
		if trouble.Topic != "split" || !strings.Contains(trouble.Remedy, "max.message.bytes=") {
			t.Errorf("trouble %+v", trouble)
		}
	})
}

// A single broker is killed and started again under load.
func TestRealBrokerKilled(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t, kafkatest.Options{FastJVM: true})
	onKafka(t, cluster, nil, func(h *harness) {
		h.createTopic("orders", 3, 1, nil)
		h.load("orders", func(ctx context.Context) error {
			for range 2 {
				if !sleep(ctx, time.Second) {
					return ctx.Err()
				}
				if err := cluster.Kill(1); err != nil {
					return err
				}
				if err := cluster.StartNode(ctx, 1); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Three brokers, min.insync.replicas 2: what takes a leader away.
func TestRealLeaderLost(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t, kafkatest.Options{Nodes: 3, FastJVM: true})
	faults := []struct {
		name  string
		fault func(ctx context.Context, topic string) error
	}{
		{"moved", func(ctx context.Context, topic string) error {
			for _, node := range []int32{1, 2, 3, 1} {
				for partition := range int32(3) {
					if err := cluster.MoveLeader(ctx, topic, partition, node); err != nil {
						return err
					}
				}
			}
			return nil
		}},
		{"killed", func(ctx context.Context, topic string) error {
			leader, err := cluster.Leader(ctx, topic, 0)
			if err != nil {
				return err
			}
			if err := cluster.Kill(leader); err != nil {
				return err
			}
			if !sleep(ctx, 4*time.Second) { // another one leads by then
				return ctx.Err()
			}
			return cluster.StartNode(ctx, leader)
		}},
		{"stopped", func(ctx context.Context, topic string) error {
			leader, err := cluster.Leader(ctx, topic, 0)
			if err != nil {
				return err
			}
			if err := cluster.Pause(leader); err != nil {
				return err
			}
			if !sleep(ctx, 6*time.Second) {
				return ctx.Err()
			}
			return cluster.Continue(leader)
		}},
		{"rolling restart", func(ctx context.Context, topic string) error {
			for node := range int32(3) {
				if err := cluster.StopNode(ctx, node+1); err != nil {
					return err
				}
				if err := cluster.StartNode(ctx, node+1); err != nil {
					return err
				}
				if err := cluster.AwaitInSync(ctx, topic); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if err := cluster.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			onKafka(t, cluster, nil, func(h *harness) {
				topic := fmt.Sprintf("orders-%d", i)
				h.createTopic(topic, 3, 3, nil)
				if err := cluster.AwaitInSync(t.Context(), topic); err != nil {
					t.Fatal(err)
				}
				h.load(topic, func(ctx context.Context) error { return f.fault(ctx, topic) })
			})
		})
	}
}

func TestRealSecurity(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t, kafkatest.Options{FastJVM: true, Secure: true})
	trusting := &tls.Config{RootCAs: cluster.CA(), Certificates: []tls.Certificate{cluster.ClientCertificate()}}
	type access struct {
		listener string
		tls      *tls.Config
		sasl     string
	}
	cases := []access{{"SSL", trusting, ""}}
	for mechanism := range mechanisms("") {
		cases = append(cases, access{"SASL_PLAINTEXT", nil, mechanism}, access{"SASL_SSL", trusting, mechanism})
	}
	mechanism := func(name, password string) sasl.Mechanism {
		if name == "" {
			return nil
		}
		return mechanisms(password)[name]
	}
	for _, c := range cases {
		t.Run(c.listener+" "+c.sasl, func(t *testing.T) {
			configure := func(cfg *Config) {
				cfg.Brokers = cluster.Listener(c.listener)
				cfg.TLS, cfg.SASL, cfg.Topics.Create = always(c.tls), mechanism(c.sasl, kafkatest.Password), true
			}
			onKafka(t, cluster, configure, func(h *harness) {
				h.pad = 10_000
				h.send("secure-"+strings.ToLower(c.listener+"-"+c.sasl), "a", 0, 500)
				h.flushAndAudit()
			})
			if c.sasl == "" {
				return
			}
			wrong := func(cfg *Config) { configure(cfg); cfg.SASL = mechanism(c.sasl, "wrong") }
			onKafka(t, cluster, wrong, func(h *harness) {
				h.until("refused", func() bool { trouble, _ := h.p.Trouble(); return trouble.Kind == KindUnreachable })
				trouble, _ := h.p.Trouble()
				if !strings.Contains(trouble.Err.Error(), "SASL_AUTHENTICATION_FAILED") {
					t.Errorf("trouble %+v", trouble)
				}
			})
		})
	}
}
