package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var splitColumns = []column{
	{"events/s", eventsPerSecond, ""}, {"÷ one", eventsPerSecond, oneRelay}, {"CPU µs", cpuEach, ""}, {"Postgres µs", serverEach, ""},
	{"broker µs", brokerEach, ""}, {"other s", otherCPU, ""},
}

const (
	oneRelay  = "one relay"
	twoRelays = "two relays"
)

// half is the name of the publication that has the rows of every second key, by a hash.
func half(i int) string { return fmt.Sprintf("%s_half_%d", publication, i) }

// splitSchema are the publications of docs/scaling.md.
func splitSchema() string {
	sql := ""
	for i := range 2 {
		sql += fmt.Sprintf("\nCREATE PUBLICATION %s FOR TABLE outbox WHERE ((hashtext(aggregateid) & 1) = %d) WITH (publish = 'insert', publish_via_partition_root = true);", half(i), i)
	}
	return sql
}

// split lets one relay and two relays take turns at an outbox.
func split(ctx context.Context, s *stage, o Options, section *Section) error {
	for _, w := range []workload{
		{name: "100 rows/tx", rows: 1_000_000, perTx: 100, split: true},
		{name: "1 row/tx", rows: 300_000, perTx: 1, split: true},
	} {
		w.rows = o.scaled(w.rows)
		d, err := s.load(ctx, w)
		if err != nil {
			return err
		}
		for range o.Runs {
			for _, side := range []struct {
				name         string
				publications []string
			}{{oneRelay, []string{publication}}, {twoRelays, []string{half(0), half(1)}}} {
				f, err := s.undisturbed(w.name, side.name, splitColumns, func() (figures, error) { return s.together(ctx, d, side.publications) })
				if err != nil {
					return err
				}
				section.add(w.name, side.name, f)
			}
		}
		if err := d.close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// together drains a dataset through a relay for each publication, and checks that each event came once and each key's in order.
func (s *stage) together(ctx context.Context, d *dataset, publications []string) (f figures, err error) {
	t := s.topics(d.workload)
	if err := t.renew(ctx, true); err != nil {
		return nil, err
	}
	var jobs []job
	for _, p := range publications {
		slot, err := s.slot(ctx, d)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, dropSlot(ctx, d.url(), slot)) }()
		jobs = append(jobs, job{database: d.database, slot: slot, publication: p})
	}
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	var relays []*running
	alive := func() (err error) {
		for _, r := range relays {
			err = errors.Join(err, r.alive())
		}
		return err
	}
	for _, j := range jobs {
		relay, err := walrelay.start(ctx, s, j)
		if err != nil {
			return nil, err
		}
		defer relay.Kill() // after stop it finds nothing
		relays = append(relays, relay)
	}
	if err := t.await(ctx, d.rows, alive); err != nil {
		return nil, err
	}
	after, err := s.used()
	if err != nil {
		return nil, err
	}
	each, ours := 1e6/float64(d.rows), 0.0
	for _, r := range relays {
		own, _ := cpu(r.Pid())
		ours += own
		if err := r.stop(); err != nil {
			return nil, err
		}
	}
	first, last, err := t.appends(ctx)
	if err != nil {
		return nil, err
	}
	f = figures{
		eventsPerSecond: float64(d.rows) / max(last.Sub(first), time.Millisecond).Seconds(), cpuEach: ours * each, serverEach: (after.postgres - before.postgres) * each,
		brokerEach: (after.broker - before.broker) * each, otherCPU: after.other(before, ours), seconds: time.Since(started).Seconds(),
	}
	return f, t.verify(ctx, d.rows)
}
