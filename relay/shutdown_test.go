package relay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/faultconn"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// servers are what a relay under test is connected to.
type servers struct {
	*world
	relay *running
	kafka *kfake.Cluster
	wire  *faultconn.Dialer // to Kafka
}

// through is the configuration of a relay that reaches Kafka over the wire.
func (s *servers) through() Config {
	cfg := s.config()
	cfg.Kafka.Dial, cfg.DrainTimeout = s.wire.DialContext, time.Second
	cfg.Kafka.DialTimeout, cfg.Kafka.RequestTimeout = time.Minute, time.Minute
	return cfg
}

// maxShutdown is how long a fast shutdown of Postgres may take with a relay connected.
const maxShutdown = 5 * time.Second

// Whatever the relay is doing, a fast shutdown of Postgres ends in seconds: it waits for every walsender's receiver.
func TestPostgresStopsInEveryState(t *testing.T) {
	t.Parallel()
	flood := func(s *servers) { // more than the sockets hold, so that the server waits for the reader
		s.exec("insert into outbox select i, 'order', 'k', 'Created', to_jsonb(repeat('x', 1000)) from generate_series(1, 30000) i")
		eventually(t, "the reader waits", func() bool { return s.relay.Status().Reason != "" })
	}
	states := []struct {
		name  string
		enter func(*servers)
		all   bool // on all versions
	}{
		{"idle", func(*servers) {}, true},
		{"traffic of others", func(s *servers) {
			s.exec("create table others as select repeat('x', 1000) from generate_series(1, 3000)")
		}, false},
		{"just published", func(s *servers) { s.insert(1000); s.delivered() }, false},
		{"in flight", func(s *servers) {
			s.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
			s.insert(100)
			eventually(t, "in flight", func() bool { return s.relay.Status().InFlight > 0 })
		}, false},
		{"kafka silent", func(s *servers) {
			s.insert(1)
			s.delivered()
			s.wire.Stall()
			s.t.Cleanup(s.wire.Release)
			s.insert(100)
			eventually(t, "in flight", func() bool { return s.relay.Status().InFlight > 0 })
		}, false},
		{"kafka down", func(s *servers) { s.wire.Refuse(true); s.wire.Cut(); s.insert(100) }, false},
		{"kafka down, and more than sockets hold", func(s *servers) { s.wire.Refuse(true); s.wire.Cut(); flood(s) }, true},
		{"halted, and more than sockets hold", func(s *servers) {
			s.exec("insert into outbox values (0, 'no topic', 'k', 'Created', '{}')")
			s.relay.state(Halted)
			flood(s)
		}, false},
		{"paused", func(s *servers) { s.ask(checkpoint.Pause, ""); s.relay.state(Paused) }, false},
		{"proof waits for kafka", func(s *servers) {
			s.insert(3)
			s.delivered()
			if err := s.relay.end(); err != nil {
				t.Fatal(err)
			}
			s.skipped()
			s.wire.Stall()
			s.t.Cleanup(s.wire.Release)
			before := s.wire.Dials()
			s.relay = s.start(s.through())
			eventually(t, "it waits for Kafka", func() bool {
				return strings.Contains(s.relay.Status().Reason, "looking in the tables") && s.wire.Dials() > before
			})
		}, false},
		{"drained", func(s *servers) { s.ask(checkpoint.Drain, ""); s.relay.state(Drained) }, false},
	}
	newest := slices.Max(pgtest.Versions())
	for _, version := range slices.Compact([]string{slices.Min(pgtest.Versions()), newest}) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, pgtest.Options{Version: version})
			for _, state := range states {
				if version != newest && !state.all {
					continue
				}
				t.Run(state.name, func(t *testing.T) {
					s := &servers{world: newWorld(t, server), kafka: kafkatest.Fake(t), wire: &faultconn.Dialer{}}
					s.brokers = s.kafka.ListenAddrs()
					s.relay = s.start(s.through())
					s.relay.state(Streaming)
					state.enter(s)
					stops(t, server)
					if err := s.relay.end(); err != nil && state.name != "drained" {
						t.Error(err)
					}
					if err := server.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				})
			}
		})
	}
}

func stops(t *testing.T, server *pgtest.Server) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := server.Stop(ctx, "fast")
	if took := time.Since(began); err != nil || took > maxShutdown {
		t.Errorf("the shutdown took %v, %v", took, err)
	}
}
