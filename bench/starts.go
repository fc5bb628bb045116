package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

const (
	firstRecord = "first_record_ms" // from the start of the process to its append
	binarySize  = "binary_mib"
)

var startColumns = []column{
	{"first record ms", firstRecord, ""}, {"RSS MiB", peakRSS, ""}, {"CPU s", cpuTotal, ""}, {"binary MiB", binarySize, ""}, {"other s", otherCPU, ""},
}

// starts lets each relay start on a slot that is caught up but for one event.
func starts(ctx context.Context, s *stage, o Options, section *Section) error {
	const name = "one event waits"
	list := slices.DeleteFunc(append([]program{walrelay}, comparators...), func(p program) bool { return !o.takesPart(p) })
	for range o.Runs {
		for _, p := range list {
			f, err := s.undisturbed(name, p.name, startColumns, func() (figures, error) { return s.firstStep(ctx, p) })
			if err != nil {
				return err
			}
			section.add(name, p.name, f)
		}
	}
	return nil
}

func (s *stage) firstStep(ctx context.Context, p program) (_ figures, err error) {
	w := workload{rows: 1}
	t := s.topics(w)
	if err := t.renew(ctx, true); err != nil {
		return nil, err
	}
	database, err := s.database(ctx, w)
	if err != nil {
		return nil, err
	}
	j, url := job{database: database}, s.server.url(database)
	if !p.polls {
		if j.slot, err = s.newSlot(ctx, url); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, dropSlot(ctx, url, j.slot)) }()
	}
	if err := execute(ctx, url, `CALL place(1, 1); CALL place_polled(1, 1)`); err != nil {
		return nil, err
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	relay, err := p.start(ctx, s, j)
	if err != nil {
		return nil, err
	}
	defer relay.Kill() // after stop it finds nothing
	if err := t.await(ctx, 1, relay.alive); err != nil {
		return nil, err
	}
	after, err := s.used()
	if err != nil {
		return nil, err
	}
	ours, _ := cpu(relay.Pid())
	f := figures{cpuTotal: ours, otherCPU: after.other(before, ours), seconds: time.Since(relay.started).Seconds()}
	if f[peakRSS], err = vmHWM(relay.Pid()); err != nil {
		return nil, err
	}
	if p.name == walrelay.name {
		info, err := os.Stat(s.walrelay)
		if err != nil {
			return nil, err
		}
		f[binarySize] = float64(info.Size()) / (1 << 20)
	}
	if err := relay.stop(); err != nil {
		return nil, err
	}
	first, _, err := t.appends(ctx)
	f[firstRecord] = millis(first.Sub(relay.started))
	return f, err
}
