package relay

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/walrelay/walrelay/replication"
)

// The level follows what is kept and what is left; the remedy names what keeps it and the setting that bounds it.
func TestSlotWatchJudges(t *testing.T) {
	const gib = int64(1 << 30)
	limits := SlotWatch{Warn: 4 * gib, Unready: 16 * gib}
	begun := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	pin := replication.Pin{PID: 4711, User: "report", Application: "psql", State: "idle in transaction", Begun: begun, QueryStart: begun.Add(time.Second)}
	reserved := func(safe int64) *replication.Slot {
		return &replication.Slot{WALStatus: "reserved", SafeWALSize: &safe}
	}
	unbounded := &replication.Slot{WALStatus: "reserved"}
	for name, c := range map[string]struct {
		w      replication.Watch
		level  Level
		remedy []string
	}{
		"little":             {replication.Watch{Slot: unbounded, Retained: gib, KeepLimit: -1}, SlotOK, nil},
		"much, by ourselves": {replication.Watch{Slot: unbounded, Retained: 5 * gib, Unconfirmed: 5 * gib, KeepLimit: -1}, SlotWarn, []string{"5.0 GiB of it are not confirmed", "max_slot_wal_keep_size = '64GB'", "Azure"}},
		"much, by a transaction": {replication.Watch{Slot: unbounded, Retained: 5 * gib, KeepLimit: -1, Pins: []replication.Pin{pin}}, SlotWarn,
			[]string{"pid 4711 (report", "since 2026-11-29T12:00:00Z", "query since 2026-11-29T12:00:01Z", "pg_terminate_backend(4711)"}},
		"too much":          {replication.Watch{Slot: unbounded, Retained: 17 * gib, KeepLimit: -1}, SlotUnready, nil},
		"half of the limit": {replication.Watch{Slot: reserved(gib - 1), Retained: gib, KeepLimit: 2 * gib}, SlotWarn, []string{"max_slot_wal_keep_size = '4096MB'"}},
		"most of the limit": {replication.Watch{Slot: reserved(gib / 4), Retained: gib, KeepLimit: 2 * gib}, SlotUnready, nil},
		"unreserved":        {replication.Watch{Slot: &replication.Slot{WALStatus: "unreserved"}, Retained: gib, KeepLimit: gib}, SlotUnready, nil},
		"lost":              {replication.Watch{Slot: &replication.Slot{WALStatus: "lost", InvalidationReason: "wal_removed"}}, SlotUnready, []string{"walrelay repair"}},
		"gone":              {replication.Watch{}, SlotUnready, []string{"walrelay repair"}},
	} {
		got := limits.Judge("s", &c.w)
		if got.Level != c.level || (c.level == SlotOK) != (got.Problem == "") {
			t.Errorf("%s: %+v, want %s", name, got, c.level)
		}
		for _, text := range c.remedy {
			if !strings.Contains(got.Remedy, text) {
				t.Errorf("%s: remedy %q has not %q", name, got.Remedy, text)
			}
		}
	}
}

// Each change of the level is one line.
func TestSlotWatchLogs(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	r := &Relay{log: zap.New(core)}
	before := SlotFinding{}
	for _, level := range []Level{SlotOK, SlotOK, SlotWarn, SlotWarn, SlotUnready, SlotUnready, SlotOK, SlotOK} {
		now := SlotFinding{Level: level, Problem: "p"}
		r.watched(before, now)
		before = now
	}
	var said []string
	for _, line := range lines.All() {
		said = append(said, line.Message)
	}
	if got := strings.Join(said, "; "); got != "the slot is in danger; the slot is in danger; the slot is out of danger" {
		t.Errorf("said %s", got)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 1 << 62: "4.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
