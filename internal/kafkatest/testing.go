package kafkatest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const launchTimeout = 10 * time.Minute // the first one downloads

// Require skips the test, loudly, where real Kafka cannot run because Java or the jars are missing; with
// WALRELAY_REQUIRE_KAFKA=1 it fails it.
func Require(t testing.TB) {
	t.Helper()
	if err := available(); err != nil {
		if os.Getenv("WALRELAY_REQUIRE_KAFKA") == "1" {
			t.Fatalf("real Kafka is required: %v", err)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED without real Kafka: %s: %v\n", t.Name(), err)
		t.Skipf("no real Kafka: %v", err)
	}
}

// available finds out once in a process whether real Kafka can run.
var available = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	if _, err := javaVersion(ctx); err != nil {
		return err
	}
	if _, err := Jars(ctx); err != nil {
		return err
	}
	return nil
})

// Start launches a cluster for one test, which may kill and restart its nodes. It ends with the test. See Require.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	Require(t)
	c, err := launchForTests(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func launchForTests(o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	return Launch(ctx, o)
}

// shared are the clusters of this test process, by number of nodes.
var shared = struct {
	sync.Mutex
	clusters map[int]*Cluster
}{clusters: map[int]*Cluster{}}

// Shared is a cluster for all tests of the process that need that number of nodes, started at the first call. Tests must
// not stop its nodes and must use topics of their own. The package's TestMain must call Main, or CloseShared after the
// tests. See Require.
func Shared(t testing.TB, nodes int) *Cluster {
	t.Helper()
	Require(t)
	shared.Lock()
	defer shared.Unlock()
	if c := shared.clusters[nodes]; c != nil {
		return c
	}
	c, err := launchForTests(Options{Nodes: nodes, FastJVM: true})
	if err != nil {
		t.Fatal(err)
	}
	shared.clusters[nodes] = c
	return c
}

// CloseShared ends the shared clusters.
func CloseShared() {
	shared.Lock()
	defer shared.Unlock()
	for nodes, c := range shared.clusters {
		if err := c.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "close shared Kafka of %d nodes: %v\n", nodes, err)
		}
		delete(shared.clusters, nodes)
	}
}

// Main is for TestMain: it runs the tests, closes the shared clusters, calls after (such as pgtest.CloseShared), looks
// for leaked goroutines and exits.
func Main(m *testing.M, after ...func()) {
	goleak.VerifyTestMain(closing{m, append(after, CloseShared)})
}

// closing closes what tests share between the last test and the search for leaks.
type closing struct {
	tests *testing.M
	after []func()
}

func (c closing) Run() int {
	code := c.tests.Run()
	for _, f := range c.after {
		f()
	}
	return code
}
