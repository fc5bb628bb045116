package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	rssBefore = "rss_before_mib"
	behind    = "events_behind" // when Kafka was back
	catchUp   = "catch_up_s"    // from then on, until the relay was level with the load
	absence   = "absence_s"
)

var outageColumns = []column{
	{"Kafka away s", absence, ""}, {"events behind", behind, ""}, {"level after s", catchUp, ""}, {"RSS before MiB", rssBefore, ""},
	{"RSS peak MiB", peakRSS, ""},
}

const outageRate = 1000

// outage takes Kafka away from under a load that goes on.
func outage(ctx context.Context, s *stage, o Options, section *Section) error {
	w := workload{}
	t := s.topics(w)
	if err := t.renew(ctx, false); err != nil {
		return err
	}
	database, err := s.database(ctx, w)
	if err != nil {
		return err
	}
	url := s.server.url(database)
	slot, err := s.newSlot(ctx, url)
	if err != nil {
		return err
	}
	relay, err := walrelay.start(ctx, s, job{database: database, slot: slot})
	if err != nil {
		return err
	}
	defer relay.Kill() // after stop it finds nothing
	l := &load{stage: s, url: url, table: "outbox", rate: outageRate, perTx: 1, relay: relay}
	if _, err := l.run(ctx, warmUp); err != nil {
		return err
	}
	f := figures{}
	if f[rssBefore], err = vmHWM(relay.Pid()); err != nil {
		return err
	}
	if err := l.through(ctx, o.Outage, f); err != nil {
		return err
	}
	if f[peakRSS], err = vmHWM(relay.Pid()); err != nil {
		return err
	}
	if err := errors.Join(relay.stop(), dropSlot(ctx, url, slot), t.verify(ctx, l.done)); err != nil {
		return err
	}
	s.tell("1,000 events/s", walrelay.name, outageColumns, f)
	section.add("1,000 events/s", walrelay.name, f)
	return nil
}

// through goes on inserting while Kafka is stopped and started again, and until the relay is level.
func (l *load) through(ctx context.Context, away time.Duration, f figures) error {
	s := l.stage
	const after = 15 * time.Second // the load goes on
	count := int((away + after).Seconds() * float64(l.rate))
	committed := make([]time.Time, count)
	group, writing := errgroup.WithContext(ctx) // which ends with them
	start := time.Now()
	for w := range l.writers() {
		group.Go(func() error { return l.insert(writing, w, start, committed) })
	}
	err := s.withoutKafka(ctx, away)
	if err == nil {
		back := time.Now()
		f[absence] = back.Sub(start).Seconds()
		f[behind] = f[absence] * float64(l.rate)
		err = l.level(ctx, start, count)
		f[catchUp] = time.Since(back).Seconds()
	}
	if err = errors.Join(err, group.Wait()); err != nil {
		return err
	}
	first := l.done
	l.done += count
	return s.topics(workload{}).await(ctx, first+count, l.relay.alive)
}

func (s *stage) withoutKafka(ctx context.Context, span time.Duration) error {
	stopping, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.kafka.StopNode(stopping, 1); err != nil {
		return fmt.Errorf("stop Kafka: %w", err)
	}
	if err := pause(ctx, span); err != nil {
		return err
	}
	if err := s.kafka.StartNode(ctx, 1); err != nil {
		return fmt.Errorf("start Kafka: %w", err)
	}
	return nil
}

// level waits until less than half a second of the load, which has count rows in all, is missing in Kafka.
func (l *load) level(ctx context.Context, start time.Time, count int) error {
	t := l.stage.topics(workload{})
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		have, err := t.length(ctx)
		if err != nil { // its leaders come back one by one
			return false, l.relay.alive()
		}
		due := l.done + min(count, int(time.Since(start).Seconds()*float64(l.rate)))
		return have > int64(due-l.rate/2), l.relay.alive()
	})
}
