package checkpoint_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// A slot of somebody else gets a row at its own position; a relay that runs clears the mark once it is past their events.
func TestAdopt(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		migrate(t, url)
		store := open(t, url)
		name, position := foreignSlot(t, url)
		id, timeline := identify(t, url)
		want := checkpoint.Row{
			Slot: name, State: checkpoint.Ready, SystemID: id, Timeline: timeline, LSN: position,
			ProducerID: checkpoint.NoProducer, MatchByID: true,
		}
		same(t, want, adopt(t, store, name, checkpoint.Adoption{MatchByID: true}))

		epoch, before, err := store.Claim(t.Context(), name, id, timeline)
		if err != nil {
			t.Fatal(err)
		}
		same(t, want, before)
		want.Epoch, want.LSN = epoch, position+8
		for _, mark := range []bool{true, false} {
			want.MatchByID = mark
			save(t, store, want)
			same(t, want, load(t, store, name))
		}
		late := want
		late.MatchByID = true // by a relay that does not know better
		save(t, store, late)
		same(t, want, load(t, store, name))
	})
}

// What becomes of a row that is there.
func TestAdoptAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	migrate(t, url)
	store := open(t, url)
	name, position := foreignSlot(t, url)
	id, timeline := identify(t, url)
	committed := time.UnixMicro(1767225600123456)
	stored := func(system string, state checkpoint.State, at lsn.End) checkpoint.Row {
		pgtest.Exec(t, url, `DELETE FROM walrelay.checkpoint`,
			`INSERT INTO walrelay.checkpoint (slot, state, system_id, timeline, lsn, commit_time, run_epoch, kafka_cluster_id, producer_id)
			VALUES ('`+name+`', '`+string(state)+`', '`+system+`', 1, '`+at.String()+`', '`+committed.Format(time.RFC3339Nano)+`', 7, 'main', 4711)`)
		return checkpoint.Row{
			Slot: name, State: state, SystemID: id, Timeline: timeline, LSN: position, CommitTime: committed, Epoch: 8,
			KafkaClusterID: "main", ProducerID: 4711,
		}
	}

	want := stored(id, checkpoint.Clean, position-8)
	same(t, want, adopt(t, store, name, checkpoint.Adoption{}))
	want = stored(id, checkpoint.Ready, position+8) // Postgres forgets positions of the slot in a crash, the row does not
	want.LSN = position + 8
	want.MatchByID = true
	same(t, want, adopt(t, store, name, checkpoint.Adoption{MatchByID: true}))
	want = stored(id, checkpoint.Ready, position-8)
	want.KafkaClusterID, want.ProducerID = "", checkpoint.NoProducer
	same(t, want, adopt(t, store, name, checkpoint.Adoption{NewKafkaCluster: true}))
	want = stored("4711", checkpoint.Clean, position+8) // of another system: its position means nothing here
	want.State, want.CommitTime, want.ProducerID = checkpoint.Ready, time.Time{}, checkpoint.NoProducer
	same(t, want, adopt(t, store, name, checkpoint.Adoption{}))

	want = stored("4711", checkpoint.Drained, position-8) // an upgraded server
	want.State, want.CommitTime, want.ProducerID = checkpoint.Ready, time.Time{}, checkpoint.NoProducer
	same(t, want, adopt(t, store, name, checkpoint.Adoption{}))
	want = stored(id, checkpoint.Drained, position-8)
	want.State, want.KafkaClusterID, want.ProducerID = checkpoint.Ready, "", checkpoint.NoProducer
	same(t, want, adopt(t, store, name, checkpoint.Adoption{NewKafkaCluster: true}))

	stored(id, checkpoint.Creating, 0)
	wantRefused(t, store, name, checkpoint.GuardState)
	stored(id, checkpoint.Ready, position)
	wantRefused(t, store, "no_such_slot", checkpoint.GuardSlot)
}

// Setup reads the row before it brings the table up to date.
func TestRowOfAnOlderTable(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	migrate(t, url)
	store := open(t, url)
	if err := store.Create(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, `ALTER TABLE walrelay.checkpoint DROP COLUMN match_by_id, DROP COLUMN ceiling, DROP COLUMN routing`)
	if row := load(t, store, slot); row.State != checkpoint.Creating || row.MatchByID {
		t.Errorf("got %+v", row)
	}
}

// foreignSlot makes a slot as another program would, and returns its position.
func foreignSlot(t *testing.T, url string) (name string, position lsn.End) {
	t.Helper()
	var database, text string
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	row := conn.QueryRow(t.Context(), `SELECT current_database(), lsn::text
		FROM pg_create_logical_replication_slot('of_' || current_database(), 'pgoutput')`)
	if err := row.Scan(&database, &text); err != nil {
		t.Fatal(err)
	}
	position, err = lsn.ParseEnd(text)
	if err != nil {
		t.Fatal(err)
	}
	return "of_" + database, position
}

func adopt(t *testing.T, store *checkpoint.Store, name string, a checkpoint.Adoption) checkpoint.Row {
	t.Helper()
	row, err := store.Adopt(t.Context(), name, a)
	if err != nil {
		t.Fatal(err)
	}
	if loaded := load(t, store, name); loaded != row {
		t.Errorf("adopted %+v, in the table %+v", row, loaded)
	}
	return row
}

func save(t *testing.T, store *checkpoint.Store, row checkpoint.Row) {
	t.Helper()
	if err := store.Save(t.Context(), row); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, store *checkpoint.Store, name string) checkpoint.Row {
	t.Helper()
	row, found, err := store.Load(t.Context(), name)
	if err != nil || !found {
		t.Fatalf("load: found %v, %v", found, err)
	}
	return row
}

func wantRefused(t *testing.T, store *checkpoint.Store, name string, guard checkpoint.Guard) {
	t.Helper()
	_, err := store.Adopt(t.Context(), name, checkpoint.Adoption{})
	refused(t, err, guard)
}
