package kafka

import (
	"testing"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// A broker of the series before: to publish, to be found again by the next run, to be fenced.
func TestRealOlderKafka(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t, kafkatest.Options{Version: kafkatest.Older, FastJVM: true})
	testEachEventOnce(t, cluster.Bootstrap(), compress.Zstd)
	onKafka(t, cluster, nil, func(h *harness) {
		h.createTopic("older", 3, 1, nil)
		h.send("older", "a", 0, 1000)
		h.flushAndAudit()
	})
}

// Brokers that know only what their year knew.
func TestOlderVersions(t *testing.T) {
	for name, versions := range map[string]*kversion.Versions{
		"1.0": kversion.V1_0_0(), "2.0": kversion.V2_0_0(), "2.8": kversion.V2_8_0(), "3.7": kversion.V3_7_0(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, append(orders(), kfake.MaxVersions(versions)), nil, func(h *harness) {
				h.send("orders", "a", 0, 200)
				h.flush()
				if n := h.cluster.PartitionInfo("orders", 0).HighWatermark; n != 200 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}
