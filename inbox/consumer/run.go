package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

// runner is one call of Run.
type runner struct {
	cfg     Config
	handler Handler
	metrics *metrics
	dialer  *kafka.Dialer
	client  *kafka.Client
	letters *kafka.Writer           // nil without a dead-letter topic
	fail    context.CancelCauseFunc // ends Run with an error
	// partitions are those of each topic, as of before the group was joined. Written by Run, and then by the watch of one
	// generation after the other.
	partitions map[string]int
}

// Run reads the topics and handles their messages until ctx ends, then finishes what is under way, commits it, leaves the
// group and returns nil. Brokers or databases that are away are waited for. An error means that a person must act: the
// configuration, a missing right, or a message that cannot be handled and has nowhere to go.
func Run(ctx context.Context, cfg Config, h Handler) error {
	cfg = cfg.withDefaults()
	if err := cfg.check(h); err != nil {
		return err
	}
	m, err := newMetrics(cfg.Metrics, cfg.Group)
	if err != nil {
		return fmt.Errorf("consumer %s: %w", cfg.Group, err)
	}
	defer m.unregister()
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &runner{cfg: cfg, handler: h, metrics: m, fail: fail}
	defer r.connect()()
	r.partitions = r.count(running)

	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: cfg.Group, Brokers: cfg.Brokers, Topics: cfg.Topics, Dialer: r.dialer, StartOffset: kafka.FirstOffset,
		SessionTimeout: cfg.SessionTimeout, RebalanceTimeout: cfg.SessionTimeout, HeartbeatInterval: min(3*time.Second, cfg.SessionTimeout/10),
		JoinGroupBackoff: time.Second, ErrorLogger: r.logger("consumer group"),
	})
	if err != nil {
		return fmt.Errorf("consumer %s: %w", cfg.Group, err)
	}
	var work errgroup.Group
	if cfg.Retention > 0 {
		work.Go(func() error { r.forget(running); return nil })
	}
	r.generations(running, group)
	fail(nil)         // the first cause counts
	_ = group.Close() // never fails; waits for every partition
	_ = work.Wait()   // returns no error
	if cause := context.Cause(running); ctx.Err() == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("consumer %s: %w", cfg.Group, cause)
	}
	return nil
}

// connect prepares what dials; the function that it returns closes connections.
func (r *runner) connect() (disconnect func()) {
	r.dialer = &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true, TLS: r.cfg.TLS, SASLMechanism: r.cfg.SASL}
	transport := &kafka.Transport{TLS: r.cfg.TLS, SASL: r.cfg.SASL}
	r.client = &kafka.Client{Addr: kafka.TCP(r.cfg.Brokers...), Transport: transport, Timeout: 10 * time.Second}
	if r.cfg.DeadLetter != "" {
		r.letters = newLetters(r.cfg, transport)
	}
	return func() {
		if r.letters != nil {
			_ = r.letters.Close() // each letter was waited for
		}
		transport.CloseIdleConnections()
	}
}

// generations works through the assignments that the group makes, until the context ends.
func (r *runner) generations(ctx context.Context, group *kafka.ConsumerGroup) {
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case isFatal(err):
			r.fail(fmt.Errorf("join the group: %w", err))
			return
		case err != nil: // the group tries again by itself, after a pause
			r.cfg.Logger.Warn("consumer: join the group", slog.String("group", r.cfg.Group), slog.Any("error", err))
			continue
		}
		r.metrics.rebalances.Inc()
		r.cfg.Logger.Info("consumer: partitions assigned", slog.String("group", r.cfg.Group), slog.Any("partitions", names(generation.Assignments)))
		generation.Start(r.watchTopics)
		for topic, assigned := range generation.Assignments {
			for _, a := range assigned {
				p := &partition{runner: r, generation: generation, topic: topic, id: a.ID, next: a.Offset}
				generation.Start(p.run)
			}
		}
	}
}

func names(assignments map[string][]kafka.PartitionAssignment) map[string][]int {
	all := map[string][]int{}
	for topic, assigned := range assignments {
		for _, a := range assigned {
			all[topic] = append(all[topic], a.ID)
		}
	}
	return all
}

// isFatal recognises what no waiting mends.
func isFatal(err error) bool {
	for _, code := range []kafka.Error{kafka.GroupAuthorizationFailed, kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.InvalidSessionTimeout, kafka.InconsistentGroupProtocol,
		kafka.InvalidGroupId} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// logger hands lines of kafka-go on.
func (r *runner) logger(what string) kafka.Logger {
	return kafka.LoggerFunc(func(format string, args ...any) {
		r.cfg.Logger.Warn("consumer: "+what, slog.String("group", r.cfg.Group), slog.String("said", fmt.Sprintf(format, args...)))
	})
}

// forget keeps the inbox small.
func (r *runner) forget(ctx context.Context) {
	for {
		n, err := r.handler.forget(ctx, r.cfg.Retention)
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("consumer: delete old rows of the inbox", slog.Any("error", err))
		}
		r.metrics.forgotten.Add(float64(n))
		if !pause(ctx, min(10*time.Minute, max(r.cfg.Retention/100, time.Second))) {
			return
		}
	}
}

// pause waits, and reports false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
