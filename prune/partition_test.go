package prune_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/prune"
)

// Partitions come before they are needed, without a gap between them, and go when all that they have is old and in Kafka.
func TestPartitions(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		d := newDatabase(t, s)
		d.exec(`CREATE TABLE events (aggregateid text, created_at timestamptz DEFAULT now(), PRIMARY KEY (aggregateid, created_at)) PARTITION BY RANGE (created_at)`,
			`CREATE TABLE events_old PARTITION OF events FOR VALUES FROM (MINVALUE) TO ('2020-01-01')`,
			`CREATE TABLE events_2020 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')`,
			`CREATE TABLE events_now PARTITION OF events FOR VALUES FROM ('2021-01-01') TO ('`+time.Now().UTC().Format("2006-01-02")+`')`,
			`INSERT INTO events VALUES ('a', '2019-05-05'), ('b', '2020-05-05')`)
		d.checkpoint(now)
		d.exec(`INSERT INTO events VALUES ('unpublished', '2020-06-06')`)
		o := prune.Options{Tables: []string{"public.events"}, OlderThan: day, Partitions: "day", Ahead: 3}

		got := d.prune(o)
		if diff := cmp.Diff(prune.Table{Name: "public.events", Dropped: []string{"events_old"}, Busy: []string{"events_2020"}, Created: daily(0, 4)}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		d.exec(`INSERT INTO events SELECT 'new', now() + n * interval '1 day' FROM generate_series(0, 3) n`)
		if got := d.prune(o); len(got.Created)+len(got.Dropped) != 0 {
			t.Errorf("again: %+v", got)
		}
		d.checkpoint(now)
		o.DryRun = true
		if got := d.prune(o); !cmp.Equal(got.Dropped, []string{"events_2020"}) {
			t.Errorf("dry run: %+v", got)
		}
		o.DryRun = false
		if got := d.prune(o); !cmp.Equal(got.Dropped, []string{"events_2020"}) {
			t.Errorf("with a newer horizon: %+v", got)
		}
		if n := d.count(`SELECT count(*) FROM events`); n != 4 {
			t.Errorf("%d rows are left, want 4", n)
		}
	})
}

// daily are the names of partitions from so many days after today on.
func daily(from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, `"public"."events_`+time.Now().UTC().AddDate(0, 0, i).Format("20060102")+`"`)
	}
	return names
}

// A detachment that was interrupted is ended by the next run.
func TestInterruptedDetach(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, pgtest.Shared(t, ""))
	d.exec(`CREATE TABLE events (aggregateid text, created_at timestamptz) PARTITION BY RANGE (created_at)`,
		`CREATE TABLE events_2020 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')`, `INSERT INTO events VALUES ('a', '2020-05-05')`)
	d.checkpoint(now)
	reader, err := connect(t, d.url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, reader, `SELECT FROM events`)
	detacher := connect(t, d.url)
	if _, err := detacher.Exec(t.Context(), `SET lock_timeout = '50ms'`); err != nil {
		t.Fatal(err)
	}
	_, err = detacher.Exec(t.Context(), `ALTER TABLE events DETACH PARTITION events_2020 CONCURRENTLY`)
	if err == nil || !strings.Contains(err.Error(), "lock timeout") || d.count(`SELECT count(*) FROM pg_inherits WHERE inhdetachpending`) != 1 {
		t.Fatalf("the detachment was not interrupted: %v", err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.prune(prune.Options{Tables: []string{"public.events"}, OlderThan: day}); !cmp.Equal(got.Dropped, []string{"events_2020"}) {
		t.Errorf("%+v", got)
	}
}
