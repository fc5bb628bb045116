package kafka

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

// What a cluster says of its topics is what they were made with; nothing is created by asking.
func TestRealInspect(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Shared(t, 1)
	err := cluster.CreateTopic(t.Context(), "inspected-one", 3, 1, map[string]string{
		"max.message.bytes": "12345", "min.insync.replicas": "1", "cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Brokers: cluster.Bootstrap(), TransactionalID: "inspector"}
	found, err := Inspect(t.Context(), cfg, func(name string) bool { return strings.HasPrefix(name, "inspected") })
	if err != nil {
		t.Fatal(err)
	}
	want := []InspectedTopic{{Name: "inspected-one", Partitions: 3, Replicas: 1, InSync: 1, Settings: map[string]string{
		"max.message.bytes": "12345", "min.insync.replicas": "1", "cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}}}
	if diff := cmp.Diff(want, found.Topics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	if found.ClusterID == "" || len(found.Brokers) != 1 || found.Transactional != nil {
		t.Errorf("cluster %q, brokers %v, %v", found.ClusterID, found.Brokers, found.Transactional)
	}
	if _, err := Inspect(t.Context(), Config{Brokers: []string{"127.0.0.1:1"}}, func(string) bool { return true }); err == nil {
		t.Error("nobody is there, and no error")
	}
}
