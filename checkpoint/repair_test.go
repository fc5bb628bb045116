package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// A repair keeps every relay out, also one that was frozen and wakes up after it, and leaves the position alone until its
// end, so that it can be begun again.
func TestRepair(t *testing.T) {
	t.Parallel()
	_, store, mine := claimed(t)
	mine.LSN, mine.Horizon, mine.KafkaClusterID = 0x200, checkpoint.Horizon{XID: 7, LSN: 0x180, Time: time.UnixMicro(1)}, "cluster"
	if err := store.Save(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	var row checkpoint.Row
	for range 2 {
		var err error
		if row, err = store.BeginRepair(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
	}
	want := mine
	want.State, want.Epoch = checkpoint.Repairing, mine.Epoch+2
	same(t, want, row)
	refused(t, store.Save(t.Context(), mine), checkpoint.GuardState)
	_, _, err := store.Claim(t.Context(), slot, mine.SystemID, mine.Timeline)
	refused(t, err, checkpoint.GuardState)

	overtaken := row
	overtaken.Epoch--
	refused(t, store.EndRepair(t.Context(), overtaken), checkpoint.GuardEpoch)

	row.LSN, row.CommitTime, row.ProducerID = 0x150, time.UnixMicro(5), 12 // the new slot decides, also downwards
	row.Horizon = checkpoint.Horizon{XID: 9, LSN: 0x150, Time: time.UnixMicro(4)}
	row.Publication, row.KafkaClusterID = "new", ""
	if err := store.EndRepair(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	after, _, err := store.Load(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	want = row
	want.State, want.KafkaClusterID = checkpoint.Ready, "cluster"
	same(t, want, after)
	refused(t, store.Save(t.Context(), mine), checkpoint.GuardEpoch)
	refused(t, store.EndRepair(t.Context(), row), checkpoint.GuardState)
}

// The table may have lost its row, or have come with a dump from another server.
func TestRepairOfAForeignOrMissingRow(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	migrate(t, url)
	store := open(t, url)
	id, timeline := identify(t, url)
	row, err := store.BeginRepair(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	same(t, checkpoint.Row{Slot: slot, State: checkpoint.Repairing, SystemID: id, Timeline: timeline, ProducerID: checkpoint.NoProducer}, row)

	pgtest.Exec(t, url, `UPDATE walrelay.checkpoint SET system_id = '7', timeline = 9`)
	if row, err = store.BeginRepair(t.Context(), slot); err != nil || row.SystemID != "7" {
		t.Fatalf("row %+v, %v", row, err)
	}
	row.LSN = 0x100
	if err := store.EndRepair(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if row, _, err = store.Load(t.Context(), slot); err != nil || row.SystemID != id || row.Timeline != timeline {
		t.Errorf("row %+v, %v, want system %s timeline %d", row, err, id, timeline)
	}
}

// Transaction ids of another system mean nothing, and a person who adopts a slot accepts its publication.
func TestAdoptForgetsAForeignHorizon(t *testing.T) {
	t.Parallel()
	url, store, mine := claimed(t)
	mine.Horizon, mine.Publication = checkpoint.Horizon{XID: 7, LSN: 0x80, Time: time.UnixMicro(1)}, "before"
	if err := store.Save(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, `UPDATE walrelay.checkpoint SET slot = 'of_' || current_database()`,
		`SELECT pg_create_logical_replication_slot('of_' || current_database(), 'pgoutput')`)
	name := "of_" + strings.Split(url[strings.LastIndex(url, "/")+1:], "?")[0]
	row, err := store.Adopt(t.Context(), name, checkpoint.Adoption{})
	if err != nil || row.Horizon != mine.Horizon || row.Publication != "" {
		t.Errorf("same system: %+v, %v", row, err)
	}
	pgtest.Exec(t, url, `UPDATE walrelay.checkpoint SET system_id = '7'`)
	row, err = store.Adopt(t.Context(), name, checkpoint.Adoption{})
	if err != nil || row.Horizon != (checkpoint.Horizon{}) || row.Publication != "" {
		t.Errorf("another system: %+v, %v", row, err)
	}
}
