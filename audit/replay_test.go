package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/lsn"
)

// chosen is what a replay would publish of rows, in short: an id, with a ! where it is stale. young are ids. In records a ^ in
// place of the @ is one that an earlier replay has brought back.
func chosen(t *testing.T, replay *Replay, rows, young, records string) (list []string, got Choice) {
	t.Helper()
	l := newLedger(ours)
	l.ranks = []rank{{by: byNumber}}
	l.forReplay(replay)
	for _, row := range strings.Fields(rows) {
		h := parse(t, row)
		order, err := strconv.ParseInt(h.id, 10, 64)
		if err != nil && h.id != "null" {
			t.Fatal(err)
		}
		if err := l.add(h.message(), 0, standing{order: order, young: slices.Contains(strings.Fields(young), h.id)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, record := range strings.Fields(records) {
		r := parse(t, strings.Replace(record, "^", "@", 1)).record()
		if strings.Contains(record, "^") {
			r.Headers[len(r.Headers)-1].Name = []byte(HeaderReplayed)
		}
		l.strike(r)
	}
	got = l.choose()
	for _, row := range strings.Fields(rows) {
		h := parse(t, row)
		if missing, stale := l.take(h.message()); missing {
			list = append(list, h.id+map[bool]string{true: "!"}[stale])
		}
	}
	return list, got
}

// What a replay of rows 3, 5, 7 and 9 of one key publishes.
func TestChoose(t *testing.T) {
	t.Parallel()
	const rows = "t/k/3=v t/k/5=v t/k/7=v t/k/9=v"
	for _, test := range []struct {
		name             string
		replay           Replay
		young            string // ids
		records          string
		want             string
		already, waiting int64
	}{
		{"nothing is there", Replay{}, "", "", "3 5 7 9", 0, 0},
		{"what is missing, behind nothing newer", Replay{}, "", "t/k/3=v@3:3 t/k/5=v@5:5", "7 9", 2, 0},
		{"what is missing, and has been overtaken", Replay{}, "", "t/k/3=v@3:3 t/k/7=v@7:7", "5! 9", 2, 0},
		{"the slot may still send", Replay{}, "7 9", "t/k/3=v@3:3 t/k/7=v@7:7", "5!", 2, 1},
		{"the slot may still send, but has not", Replay{}, "7 9", "", "3 5", 0, 2},
		{"again", Replay{Again: true}, "", "t/k/3=v@3:3 t/k/5=v@5:5 t/k/7=v@7:7 t/k/9=v@9:9", "3 5 7 9", 0, 0},
		{"again, in part missing", Replay{Again: true}, "9", "t/k/7=v@7:7", "3 5 7", 0, 1},
		{"again, and a newer event is not among the rows", Replay{Again: true}, "",
			"t/k/3=v@3:3 t/k/5=v@5:5 t/k/7=v@7:7 t/k/8=v@8:8", "3! 5! 7! 9", 0, 0},
		{"positions", Replay{Again: true, From: 5, To: 7}, "", "t/k/3=v@3:3 t/k/5=v@5:5 t/k/7=v@7:7", "5 7", 0, 0},
		{"positions, with a newer event behind them", Replay{Again: true, From: 5, To: 7}, "",
			"t/k/3=v@3:3 t/k/5=v@5:5 t/k/7=v@7:7 t/k/9=v@9:9", "5! 7!", 0, 0},
		{"from a position on", Replay{Again: true, From: 7}, "", "t/k/3=v@3:3 t/k/7=v@7:7 t/k/9=v@9:9", "7 9", 0, 0},
		{"up to a position", Replay{Again: true, To: 5}, "", "t/k/3=v@3:3 t/k/5=v@5:5", "3 5", 0, 0},
		{"positions of another database are none", Replay{Again: true, From: 5}, "", "t/k/3=v@!6:6 t/k/5=v@5:5", "5", 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list, got := chosen(t, &test.replay, rows, test.young, test.records)
			if strings.Join(list, " ") != test.want || got.Already != test.already || got.Waiting != test.waiting || got.Left != int64(len(list)) {
				t.Errorf("%v and %+v, want %s, %d already, %d waiting", list, got, test.want, test.already, test.waiting)
			}
		})
	}
}

// What is not a matter of order: events without a key, rows that are equal, values that have changed.
func TestChooseRows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		replay        Replay
		rows, young   string
		records, want string
		waiting       int64
	}{
		{"events without a key overtake none", Replay{}, "t/null/3=v t/null/5=v", "", "t/null/9=v@9:9 t/null/5=v@5:5", "3", 0},
		{"again, without a key", Replay{Again: true, From: 3, To: 3}, "t/null/3=v t/null/5=v", "", "t/null/3=v@3:3 t/null/5=v@5:5", "3", 0},
		{"another value is the same event", Replay{}, "t/k/3=new t/k/5=v", "", "t/k/3=old@3:3", "5", 0},
		{"but not without an id", Replay{}, "t/k/null=new", "", "t/k/null=old@3:3", "null", 0},
		{"equal rows, one of which is not sent yet", Replay{Again: true}, "t/k/3=v t/k/3=v", "3", "t/k/3=v@3:3", "3", 1},
		{"a dead letter that has come back", Replay{Again: true, From: 4, To: 6}, "t/k/5=v", "", "t/k/5=v^5:5", "5", 0},
		{"and one of another time", Replay{Again: true, From: 4, To: 6}, "t/k/5=v", "", "t/k/5=v^7:7", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list, got := chosen(t, &test.replay, test.rows, test.young, test.records)
			if strings.Join(list, " ") != test.want || got.Waiting != test.waiting || got.Left != int64(len(list)) {
				t.Errorf("%v and %+v, want %s, %d waiting", list, got, test.want, test.waiting)
			}
		})
	}
}

// A record that was replayed on purpose is no duplicate, whatever the row's other records are.
func TestLedgerReplayed(t *testing.T) {
	t.Parallel()
	l := newLedger(ours)
	h := parse(t, "t/k/1=v@1:1")
	if err := l.add(h.message(), 0, standing{}); err != nil {
		t.Fatal(err)
	}
	marked := h
	marked.source = 0
	again := marked.record()
	again.Headers = append(again.Headers, headerOf(HeaderReplayed, "2026-11-30T12:00:00Z"))
	got := fmt.Sprint(l.strike(h.record()), l.strike(again), l.strike(again), l.strike(h.record()))
	if want := fmt.Sprint(found, replayed, replayed, duplicated); got != want {
		t.Errorf("verdicts %s, want %s", got, want)
	}
}

// A dead letter is left alone until it has come back; from then on it is an event like all.
func TestChooseDeadLetters(t *testing.T) {
	t.Parallel()
	l := newLedger(ours)
	l.forReplay(&Replay{Again: true})
	for _, row := range []string{"t/k/1=v", "t/k/2=v"} {
		h := parse(t, row)
		if err := l.add(h.message(), 0, standing{}); err != nil {
			t.Fatal(err)
		}
		letter := h.record()
		letter.Topic = "dead"
		letter.Headers = append(letter.Headers, headerOf(HeaderTopic, h.topic))
		l.bury(letter)
	}
	l.strike(parse(t, "t/k/1=v").record())
	l.choose()
	for row, want := range map[string]bool{"t/k/1=v": false, "t/k/2=v": true} {
		if got := l.buried(parse(t, row).message()); got != want {
			t.Errorf("%s buried: %v", row, got)
		}
	}
}

func TestReplayCovers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		replay Replay
		at     lsn.Start
		want   bool
	}{
		{Replay{}, 5, false}, // nobody asks
		{Replay{From: 5}, 4, false}, {Replay{From: 5}, 5, true}, {Replay{From: 5}, 9, true},
		{Replay{To: 5}, 5, true}, {Replay{To: 5}, 6, false}, {Replay{From: 5, To: 5}, 5, true},
	} {
		if got := test.replay.covers(test.at); got != test.want {
			t.Errorf("%+v covers %v: %v", test.replay, test.at, got)
		}
	}
}
