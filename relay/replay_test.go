package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// graveyard is a world with a dead-letter topic and dead letters of every kind, in which a relay goes on running.
func graveyard(t *testing.T) (*world, Config) {
	t.Helper()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null, add column p integer")
	if err := kafkatest.CreateTopic(t.Context(), w.brokers, "outbox.event.small", 3, 1, map[string]string{"max.message.bytes": "1000"}); err != nil {
		t.Fatal(err)
	}
	cfg := w.withMessages()
	cfg.DeadLetterTopic = "dead"
	cfg.Postgres.MaxEventBytes = 1 << 20
	cfg.Messages.Topics = []string{"outbox.event.order"}
	cfg.Tables[0].Route = router.Config{Placements: []string{"p:partition"}}
	r := w.start(cfg)
	r.state(Streaming)
	for _, sql := range []string{
		"insert into outbox values (1, null, 'a', 'null', '{}')",
		"insert into outbox values (2, 'order', 'a', 'partial', '{}', -1)",
		"insert into outbox values (3, 'order', 'b', 'partial', '{}', -1)",
		"insert into outbox values (4, 'order', 'b', 'newer', '{}')",
		"insert into outbox select 5, 'small', 'c', 'large', to_jsonb(string_agg(md5(i::text), '')) from generate_series(1, 100) i",
		"insert into outbox values (6, 'not/legal', 'd', 'topic', '{}')",
		"insert into outbox select 7, 'order', 'e', 'huge', to_jsonb(repeat('x', 2000000))",
		"insert into outbox values (8, 'order', 'f', 'gone', '{}', -1); delete from outbox where id = 8",
		`select pg_logical_emit_message(true, 'walrelay', '{"id": "9", "aggregatetype": "payment", "aggregateid": "g", "payload": {"n": 9}}')`,
		`select pg_logical_emit_message(true, 'walrelay', '{')`,
	} {
		w.exec(sql)
	}
	eventually(t, "all are buried", func() bool { return len(w.records()) == 10 && r.Status().InFlight == 0 })
	return w, cfg
}

// alterTopic sets a topic's setting.
func (w *world) alterTopic(topic, name, value string) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}}}}
	answer, err := request.RequestWith(w.t.Context(), client)
	if err != nil || answer.Resources[0].ErrorCode != 0 {
		w.t.Fatalf("alter topic %s: %+v, %v", topic, answer, err)
	}
}

func (w *world) replay(cfg Config, o ReplayOptions) ReplayReport {
	w.t.Helper()
	report, err := Replay(w.t.Context(), cfg, o, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, text := range report.Impossible { // without the place, which nobody knows before
		before, reason, _ := strings.Cut(text, ": ")
		id, _, _ := strings.Cut(before, " (")
		if strings.HasPrefix(id, "event ") {
			id = "event"
		}
		report.Impossible[i] = id + ": " + reason
	}
	return report
}

// Every dead letter that can come back does, once, whole, marked, and in the order of its key; of the others each is named.
func TestReplay(t *testing.T) {
	t.Parallel()
	w, cfg := graveyard(t)
	before := len(w.records())
	dry := w.replay(cfg, ReplayOptions{DryRun: true})
	if dry.Replayed != 1 || len(w.records()) != before { // the large one, which would be refused
		t.Errorf("before anything is mended: %+v", dry)
	}
	refused := w.replay(cfg, ReplayOptions{IDs: []string{"5"}})
	if refused.Replayed != 0 || len(refused.Impossible) != 1 || !strings.Contains(refused.Impossible[0], "MESSAGE_TOO_LARGE") {
		t.Errorf("still too large: %+v", refused)
	}

	w.exec("update outbox set aggregatetype = 'order' where id = 1")
	w.exec("update outbox set p = null")
	w.alterTopic("outbox.event.small", "max.message.bytes", "100000")
	cfg.Messages.Topics = []string{"outbox.event.*"}
	got := w.replay(cfg, ReplayOptions{})
	want := ReplayReport{
		From: FromDeadLetters, Events: 9, Replayed: 4, StaleEvents: 1,
		ImpossibleEvents: 4, Impossible: []string{
			`id 6: column aggregatetype: route: value "not/legal" makes the illegal topic name "outbox.event.not/legal": only ASCII ` +
				"letters, digits, dot, underscore and hyphen are allowed",
			"event: the row was too large to be read, so that its id is not known; insert it anew if its event is still wanted",
			"id 8: its row is not there any more",
			"event: message envelope: it must be one valid JSON object in UTF-8",
		},
	}
	stale := got.Stale
	got.Stale = nil
	if diff := cmp.Diff(want, got); diff != "" || len(stale) != 1 || !strings.HasPrefix(stale[0], "id 3 (") {
		t.Errorf("stale %q, (-want +got):\n%s", stale, diff)
	}
	w.cameBack(map[string]string{"1": "{}", "2": "{}", "5": "md5", "9": `{"n": 9}`})

	again := w.replay(cfg, ReplayOptions{IDs: []string{"1", "2", "3", "4", "nobody"}, AllowStale: true})
	if again.Replayed != 1 || again.Already != 2 || !cmp.Equal(again.Unknown, []string{"4", "nobody"}) {
		t.Errorf("again: %+v", again)
	}
	if all := w.replay(cfg, ReplayOptions{}); all.Replayed != 0 || all.Already != 5 || all.Events != 9 {
		t.Errorf("once more: %+v", all)
	}
	verified, err := Verify(t.Context(), cfg, VerifyOptions{}, nil)
	if err != nil || verified.Duplicated.Count+verified.OutOfOrder.Count > 0 || verified.Missing.Count != 1 { // the one too large to be read
		t.Errorf("verify: %+v, %v", verified, err)
	}
}

// cameBack checks the records that a replay has published: id and the value, or a part of its kind.
func (w *world) cameBack(want map[string]string) {
	w.t.Helper()
	order := map[string]lsn.Identity{}
	found := map[string]bool{}
	for _, record := range w.records() {
		mark, id := header(record, audit.HeaderReplayed), header(record, "id")
		if mark == "" || record.Topic == "dead" {
			continue
		}
		value, known := want[id]
		place, err := lsn.ParseIdentity(mark)
		at, failed := time.Parse(router.TimeFormat, header(record, router.HeaderTime))
		switch {
		case !known || found[id]:
			w.t.Errorf("event %s came back, once more: %v", id, found[id])
		case err != nil || failed != nil || at.UnixMicro() != place.Time || time.Since(record.Timestamp) > time.Minute:
			w.t.Errorf("event %s: time %v, headers %v", id, record.Timestamp, record.Headers)
		case value == "md5" && len(record.Value) < 3000 || value != "md5" && string(record.Value) != value:
			w.t.Errorf("event %s: value %.100s", id, record.Value)
		case len(record.Headers) != 3 || record.Headers[0].Name != "id":
			w.t.Errorf("event %s: headers %v", id, record.Headers)
		case follows(place, order[string(record.Key)]) < 0:
			w.t.Errorf("event %s stands behind a newer one of its key", id)
		}
		found[id], order[string(record.Key)] = true, place
	}
	if len(found) != len(want) {
		w.t.Errorf("%d came back, want %d", len(found), len(want))
	}
}

// Dead letters are chosen by key, time, position and, where a header has it, by type.
func TestReplayChooses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null")
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	if _, err := Replay(t.Context(), cfg, ReplayOptions{Types: []string{"a"}, DryRun: true}, nil); err == nil || !strings.Contains(err.Error(), "--from tables") {
		t.Errorf("by type, which no header has: %v", err)
	}
	cfg.Tables = []Table{{Name: "public.outbox", Route: router.Config{Placements: []string{"type:header:kind"}}}}
	r := w.start(cfg)
	r.state(Streaming)
	var places []lsn.Identity
	for i := range 4 {
		w.exec(fmt.Sprintf("insert into outbox values (%d, null, 'k%d', '%c', '{}')", i, i%2, 'a'+i))
		eventually(t, "it is buried", func() bool { return len(w.records()) == i+1 })
		place, err := lsn.ParseIdentity(header(w.records()[i], router.HeaderPosition))
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place)
	}
	w.exec("update outbox set aggregatetype = 'order'")
	at := func(i int) time.Time { return time.UnixMicro(places[i].Time) }
	for name, c := range map[string]struct {
		o    ReplayOptions
		want int64
	}{
		"all":                    {ReplayOptions{}, 4},
		"key":                    {ReplayOptions{Keys: []string{"k1"}}, 2},
		"no such key":            {ReplayOptions{Keys: []string{"k"}}, 0},
		"types":                  {ReplayOptions{Types: []string{"a", "d"}}, 2},
		"type and key":           {ReplayOptions{Types: []string{"a", "d"}, Keys: []string{"k1"}}, 1},
		"since":                  {ReplayOptions{Since: at(1)}, 3},
		"until":                  {ReplayOptions{Until: at(1)}, 2},
		"since and until":        {ReplayOptions{Since: at(1), Until: at(2)}, 2},
		"from a position":        {ReplayOptions{FirstLSN: places[2].Commit}, 2},
		"up to a position":       {ReplayOptions{LastLSN: places[0].Commit}, 1},
		"positions and identity": {ReplayOptions{FirstLSN: places[0].Commit, LastLSN: places[1].Commit, IDs: []string{places[1].String()}}, 1},
	} {
		c.o.DryRun = true
		if got := w.replay(cfg, c.o); got.Events != c.want || got.Replayed != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// A replay that is killed before it knows what is there is begun anew, and repeats nothing; a relay beside it is not refused.
func TestReplayIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Shared(t, ""))
	w.exec("alter table outbox alter aggregatetype drop not null")
	cfg := w.config()
	cfg.DeadLetterTopic = "dead"
	r := w.start(cfg)
	r.state(Streaming)
	w.exec("insert into outbox select i, null, 'k' || i % 5, 't', '{}' from generate_series(1000, 1499) i")
	eventually(t, "all are buried", func() bool { return len(w.records()) == 500 })
	w.exec("update outbox set aggregatetype = 'order'")
	for n := range 3 {
		got := w.replay(cfg, ReplayOptions{})
		if want := int64(500); n == 0 && got.Replayed != want || n > 0 && got.Already != want {
			t.Errorf("replay %d: %+v", n, got)
		}
	}
	w.next = 1000
	w.exec("delete from outbox")
	w.insert(10)
	eventually(t, "the relay goes on", func() bool { return len(w.records()) == 1010 && r.Status().State == Streaming })
}
