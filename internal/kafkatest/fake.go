package kafkatest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Partitions is the number of partitions of a topic that is created without one, on every cluster of this package.
const Partitions = 6

// Fake is a kfake cluster of one broker that lives as long as the test and keeps its records in memory. Topics are
// created when a metadata request allows it. opts come after these defaults.
func Fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := LaunchFake("", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// LaunchFake starts a kfake cluster like Fake's. It keeps its records in the folder dir, also over a restart, unless dir
// is "". The caller must Close it.
func LaunchFake(dir string, opts ...kfake.Opt) (*kfake.Cluster, error) {
	defaults := []kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(Partitions), kfake.AllowAutoTopicCreation()}
	if dir != "" {
		defaults = append(defaults, kfake.DataDir(dir))
	}
	c, err := kfake.NewCluster(append(defaults, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	return c, nil
}
