package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// replays runs f and gives the ids of the records that it has brought, of each key in their order in the log.
func (w *world) replays(f func()) map[string][]string {
	w.t.Helper()
	place := func(r kafkatest.Record) string { return fmt.Sprint(r.Topic, r.Partition, r.Offset) }
	before := map[string]bool{}
	for _, record := range w.records() {
		before[place(record)] = true
	}
	f()
	ids := map[string][]string{}
	for _, record := range w.records() { // of a key they are in one partition
		if before[place(record)] {
			continue
		}
		mark, err := time.Parse(router.TimeFormat, header(record, audit.HeaderReplayed))
		if err != nil || time.Since(mark) > time.Minute || header(record, router.HeaderPosition) != "" {
			w.t.Errorf("event %s: headers %v", header(record, "id"), record.Headers)
		}
		ids[string(record.Key)] = append(ids[string(record.Key)], header(record, "id"))
	}
	return ids
}

// remake deletes a topic and makes it anew.
func (w *world) remake(topic string) {
	w.t.Helper()
	err := kafkatest.DeleteTopic(w.t.Context(), w.brokers, topic)
	if err == nil {
		err = kafkatest.CreateTopic(w.t.Context(), w.brokers, topic, 3, 1, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// settled tells whether the rows below an id are surely sent.
func (w *world) settled(id int) bool {
	w.t.Helper()
	var waiting int
	err := w.db.QueryRow(w.t.Context(), `select count(*) from outbox, walrelay.checkpoint c
		where outbox.id < $1 and age(outbox.xmin) <= age(c.horizon::xid)`, id).Scan(&waiting)
	if err != nil {
		w.t.Fatal(err)
	}
	return waiting == 0
}

// A topic is lost: its events come back from the table once, in the order of their keys, while the relay runs on. Again means
// once more, and verify knows that from a mistake.
func TestReplayTables(t *testing.T) {
	t.Parallel()
	w := published(t, pgtest.Shared(t, ""))
	cfg := w.config()
	r := w.start(cfg)
	r.state(Streaming)
	w.insert(500)
	eventually(t, "all are there", func() bool { return len(w.records()) == 510 && r.Status().InFlight == 0 })
	tables := func(o ReplayOptions) ReplayReport { o.From = FromTables; return w.replay(cfg, o) }
	if got := tables(ReplayOptions{}); got.Events != 510 || got.Already+got.Waiting != 510 || got.Already < 500 || got.LeftOut() {
		t.Errorf("nothing is missing: %+v", got)
	}

	w.remake("outbox.event.order")
	w.insert(10)
	eventually(t, "the relay goes on", func() bool { return len(w.records()) == 10 && w.settled(510) })
	var got ReplayReport
	nothing := func(o ReplayOptions) ReplayReport {
		if brought := w.replays(func() { got = tables(o) }); len(brought) > 0 {
			t.Errorf("%+v brought %v", o, brought)
		}
		return got
	}
	if nothing(ReplayOptions{DryRun: true, AllowStale: true}); got.Replayed != 510 {
		t.Errorf("dry run: %+v", got)
	}
	if nothing(ReplayOptions{}); got.StaleEvents != 510 || len(got.Stale) != 510 || !got.LeftOut() {
		t.Errorf("all keys have newer events: %d stale, %d replayed", got.StaleEvents, got.Replayed)
	}
	brought := w.replays(func() { got = tables(ReplayOptions{AllowStale: true}) })
	if got.Replayed != 510 || got.LeftOut() {
		t.Errorf("all that is missing: %+v", got)
	}
	inOrder(t, brought, 510)
	if nothing(ReplayOptions{AllowStale: true}); got.Already != 520 {
		t.Errorf("nothing is missing any more: %+v", got)
	}
	brought = w.replays(func() { got = tables(ReplayOptions{Again: true}) })
	if got.Replayed != 520 || got.LeftOut() {
		t.Errorf("again: %+v", got)
	}
	inOrder(t, brought, 520)
	verified, err := Verify(t.Context(), cfg, VerifyOptions{}, nil)
	if err != nil || differs(verified) || verified.Replayed != 520 {
		t.Errorf("verify: %+v, %v", verified, err)
	}
}

// A record that the brokers refuse keeps back neither its key nor the others, and is named; without a row in the checkpoint
// nobody knows what was sent, and nothing is.
func TestReplayTablesGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	cfg := w.config()
	r := w.start(cfg)
	r.state(Streaming)
	w.exec("insert into outbox select i, 'order', 'k', 't', to_jsonb(repeat(md5(i::text), case i when 3 then 100 else 1 end)) from generate_series(1, 9) i")
	w.exec("insert into outbox values (10, 'order', 'other', 't', '{}')")
	eventually(t, "all are there, and surely sent", func() bool { return len(w.records()) == 10 && w.settled(10) })
	w.remake("outbox.event.order")
	w.alterTopic("outbox.event.order", "max.message.bytes", "1000")
	var got ReplayReport
	brought := w.replays(func() { got = w.replay(cfg, ReplayOptions{From: FromTables}) })
	if got.ImpossibleEvents != 1 || len(got.Impossible) != 1 || !strings.HasPrefix(got.Impossible[0], "id 3: MESSAGE_TOO_LARGE") || !got.LeftOut() {
		t.Errorf("impossible: %+v", got)
	}
	if want := []string{"1", "2", "4", "5", "6", "7", "8", "9"}; !slices.Equal(brought["k"], want) || got.Replayed+got.Waiting != 9 {
		t.Errorf("brought %v: %+v", brought, got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	w.exec("update walrelay.checkpoint set system_id = '4711'")
	if _, err := Replay(t.Context(), cfg, ReplayOptions{From: FromTables, AllowStale: true}, nil); err == nil || !strings.Contains(err.Error(), "no row of slot") {
		t.Errorf("with a checkpoint of another server: %v", err)
	}
}

// inOrder wants so many events, those of each key in the order of their ids, which is that of their commits.
func inOrder(t *testing.T, brought map[string][]string, want int) {
	t.Helper()
	for key, ids := range brought {
		want -= len(ids)
		numbers := make([]int, len(ids))
		for i, id := range ids {
			if _, err := fmt.Sscan(id, &numbers[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.IsSorted(numbers) {
			t.Errorf("key %s: %v", key, ids)
		}
	}
	if want != 0 {
		t.Errorf("%d more were wanted", want)
	}
}

// Rows are chosen by id, key, type, time and position; what is newer is respected.
func TestReplayTablesChooses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox add created_at timestamptz")
	cfg := w.config()
	r := w.start(cfg)
	r.state(Streaming)
	for i := range 6 {
		w.exec(fmt.Sprintf("insert into outbox values (%d, 'order', 'k%d', '%c', '{}', '2026-01-0%d 00:00:00Z')", i, i%2, 'a'+i, i+1))
	}
	eventually(t, "all are there", func() bool { return len(w.records()) == 6 && r.Status().InFlight == 0 })
	places := make([]lsn.Start, 6)
	for _, record := range w.records() {
		place, err := lsn.ParseIdentity(header(record, router.HeaderPosition))
		if err != nil {
			t.Fatal(err)
		}
		places[header(record, "id")[0]-'0'] = place.Commit
	}
	day := func(n int) time.Time { return time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name    string
		o       ReplayOptions
		want    map[string][]string
		stale   int64
		unknown []string
	}{
		{"ids", ReplayOptions{IDs: []string{"1", "4", "99", "x"}, AllowStale: true}, map[string][]string{"k1": {"1"}, "k0": {"4"}}, 0, []string{"99", "x"}},
		{"an id with newer events of its key", ReplayOptions{IDs: []string{"1"}}, nil, 1, nil},
		{"key", ReplayOptions{Keys: []string{"k1"}}, map[string][]string{"k1": {"1", "3", "5"}}, 0, nil},
		{"types", ReplayOptions{Types: []string{"e", "f", "z"}}, map[string][]string{"k0": {"4"}, "k1": {"5"}}, 0, nil},
		{"since", ReplayOptions{Since: day(3)}, map[string][]string{"k0": {"4"}, "k1": {"3", "5"}}, 0, nil},
		{"until", ReplayOptions{Until: day(1), AllowStale: true}, map[string][]string{"k0": {"0"}, "k1": {"1"}}, 0, nil},
		{"positions", ReplayOptions{FirstLSN: places[4]}, map[string][]string{"k0": {"4"}, "k1": {"5"}}, 0, nil},
		{"positions that end early", ReplayOptions{FirstLSN: places[1], LastLSN: places[4]}, map[string][]string{"k0": {"2", "4"}}, 2, nil},
		{"positions and key", ReplayOptions{LastLSN: places[3], Keys: []string{"k0"}, AllowStale: true}, map[string][]string{"k0": {"0", "2"}}, 0, nil},
	} {
		c.o.From, c.o.Again = FromTables, true
		var got ReplayReport
		ids := w.replays(func() { got = w.replay(cfg, c.o) })
		if c.want == nil {
			c.want = map[string][]string{}
		}
		if diff := cmp.Diff(c.want, ids); diff != "" || got.StaleEvents != c.stale || !slices.Equal(got.Unknown, c.unknown) {
			t.Errorf("%s: %+v, (-want +got):\n%s", c.name, got, diff)
		}
	}
	messages := w.withMessages()
	messages.Tables = nil
	if _, err := Replay(t.Context(), messages, ReplayOptions{From: FromTables}, nil); err == nil || !strings.Contains(err.Error(), "no outbox table") {
		t.Errorf("messages alone: %v", err)
	}
	if _, err := Replay(t.Context(), Config{Postgres: cfg.Postgres, Kafka: cfg.Kafka, Tables: []Table{{Name: "public.outbox",
		Route: router.Config{Columns: router.Columns{Type: "aggregatetype"}}}}}, ReplayOptions{From: FromTables, Types: []string{"order"}, DryRun: true}, nil); err != nil {
		t.Errorf("by the mapping's column of the type: %v", err)
	}
}
