package checkpoint_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const slot = "walrelay_test"

// The life of a row: made, claimed, saved, stopped cleanly, claimed again.
func TestLife(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		store := open(t, url)
		load := func() checkpoint.Row {
			t.Helper()
			row, found, err := store.Load(t.Context(), slot)
			if err != nil || !found {
				t.Fatalf("load: found %v, %v", found, err)
			}
			return row
		}
		if _, found, err := store.Load(t.Context(), slot); found || err != nil {
			t.Fatalf("without the table: found %v, %v; want false, nil", found, err)
		}
		migrate(t, url)
		if _, found, err := store.Load(t.Context(), slot); found || err != nil {
			t.Fatalf("without the row: found %v, %v; want false, nil", found, err)
		}
		id, timeline := identify(t, url)

		for range 2 { // an interrupted creation is taken up again
			if err := store.Create(t.Context(), slot); err != nil {
				t.Fatal(err)
			}
		}
		want := checkpoint.Row{
			Slot: slot, State: checkpoint.Creating, SystemID: id, Timeline: timeline, ProducerID: checkpoint.NoProducer,
		}
		same(t, want, load())

		start := checkpoint.Horizon{XID: 1<<33 + 5, LSN: 0x100, Time: time.UnixMicro(1767225600000001)}
		if err := store.MarkReady(t.Context(), checkpoint.Row{Slot: slot, LSN: 0x100, Horizon: start, Publication: "made", ProducerID: checkpoint.NoProducer}); err != nil {
			t.Fatal(err)
		}
		want.State, want.LSN, want.Horizon, want.Publication = checkpoint.Ready, 0x100, start, "made"
		same(t, want, load())

		epoch, before, err := store.Claim(t.Context(), slot, id, timeline)
		if err != nil || epoch != 1 {
			t.Fatalf("claim: epoch %d, %v", epoch, err)
		}
		same(t, want, before)

		want.Epoch, want.LSN, want.State = 1, 0x200, checkpoint.Clean
		want.CommitTime, want.KafkaClusterID, want.ProducerID = time.UnixMicro(1767225600123456), "cluster", 0
		want.Routing = "hash"
		if err := store.Save(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		same(t, want, load())

		keepalive := checkpoint.Row{ // a position without a commit time, from a relay that has not met Kafka yet
			Slot: slot, State: checkpoint.Clean, SystemID: id, Timeline: timeline, Epoch: 1, LSN: 0x300,
			ProducerID: checkpoint.NoProducer,
		}
		if err := store.Save(t.Context(), keepalive); err != nil {
			t.Fatal(err)
		}
		want.LSN = 0x300
		same(t, want, load())

		epoch, before, err = store.Claim(t.Context(), slot, id, timeline)
		if err != nil || epoch != 2 {
			t.Fatalf("second claim: epoch %d, %v", epoch, err)
		}
		same(t, want, before)
		want.Epoch, want.State = 2, checkpoint.Ready // from now on a crash is an unclean stop
		same(t, want, load())

		want.State, want.Ceiling = checkpoint.Drained, 0x900
		save(t, store, want)
		same(t, want, load())
		if want.Epoch, before, err = store.Claim(t.Context(), slot, id, timeline); err != nil || before.Ceiling != 0x900 {
			t.Fatalf("claim of a drained row: %+v, %v", before, err)
		}
		want.State = checkpoint.Ready // and the ceiling holds until the first save
		same(t, want, load())
		want.Ceiling = 0
		save(t, store, want)
		same(t, want, load())
	})
}

func same(t *testing.T, want, got checkpoint.Row) {
	t.Helper()
	if got.SavedAt.IsZero() || time.Since(got.SavedAt).Abs() > time.Hour {
		t.Errorf("saved at %v", got.SavedAt)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(checkpoint.Row{}, "SavedAt")); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestGuardsOfSave(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change string // what happened to the row meanwhile
		row    func(*checkpoint.Row)
		want   checkpoint.Guard // empty: saved
	}{
		{name: "forward", row: func(r *checkpoint.Row) { r.LSN++ }},
		{name: "equal position"},
		{name: "same cluster", change: `SET kafka_cluster_id = 'c'`, row: func(r *checkpoint.Row) { r.KafkaClusterID = "c" }},
		{name: "downwards", row: func(r *checkpoint.Row) { r.LSN-- }, want: checkpoint.GuardPosition},
		{name: "claimed by another", change: `SET run_epoch = run_epoch + 1`, want: checkpoint.GuardEpoch},
		{name: "epoch from the future", row: func(r *checkpoint.Row) { r.Epoch++ }, want: checkpoint.GuardEpoch},
		{name: "other server", row: func(r *checkpoint.Row) { r.SystemID = "7" }, want: checkpoint.GuardServer},
		{name: "other timeline", row: func(r *checkpoint.Row) { r.Timeline++ }, want: checkpoint.GuardServer},
		{name: "row of another system", change: `SET system_id = '7'`, want: checkpoint.GuardHistory},
		{name: "being created", change: `SET state = 'creating'`, want: checkpoint.GuardState},
		{name: "other cluster", change: `SET kafka_cluster_id = 'd'`,
			row: func(r *checkpoint.Row) { r.KafkaClusterID = "c" }, want: checkpoint.GuardCluster},
		{name: "row gone", row: func(r *checkpoint.Row) { r.Slot = "gone" }, want: checkpoint.GuardRow},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, store, mine := claimed(t)
			if test.change != "" {
				pgtest.Exec(t, url, `UPDATE walrelay.checkpoint `+test.change)
			}
			before, _, err := store.Load(t.Context(), slot)
			if err != nil {
				t.Fatal(err)
			}
			if test.row != nil {
				test.row(&mine)
			}
			refused(t, store.Save(t.Context(), mine), test.want)
			if after, _, err := store.Load(t.Context(), slot); test.want != "" && (after != before || err != nil) {
				t.Errorf("a refused save changed the row from %+v to %+v, %v", before, after, err)
			}
		})
	}
}

func TestGuardsOfClaim(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   string
		slot     string
		system   string
		timeline int32
		want     checkpoint.Guard
	}{
		{name: "ready"},
		{name: "clean", change: `SET state = 'clean'`},
		{name: "drained", change: `SET state = 'drained', ceiling = lsn + 100`},
		{name: "being created", change: `SET state = 'creating'`, want: checkpoint.GuardState},
		{name: "other server", system: "7", want: checkpoint.GuardServer},
		{name: "other timeline", timeline: 9, want: checkpoint.GuardServer},
		{name: "row of another system", change: `SET system_id = '7'`, want: checkpoint.GuardHistory},
		{name: "beyond the server's WAL", change: `SET lsn = 'FFFFFF/0'`, want: checkpoint.GuardPosition},
		{name: "no row", slot: "gone", want: checkpoint.GuardRow},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, store, mine := claimed(t)
			if test.change != "" {
				pgtest.Exec(t, url, `UPDATE walrelay.checkpoint `+test.change)
			}
			name, system, timeline := slot, mine.SystemID, mine.Timeline
			if test.slot != "" {
				name = test.slot
			}
			if test.system != "" {
				system = test.system
			}
			if test.timeline != 0 {
				timeline = test.timeline
			}
			epoch, _, err := store.Claim(t.Context(), name, system, timeline)
			refused(t, err, test.want)
			if row, _, _ := store.Load(t.Context(), slot); test.want != "" && row.Epoch != mine.Epoch {
				t.Errorf("a refused claim raised the epoch to %d", row.Epoch)
			}
			if test.want == "" && epoch != mine.Epoch+1 {
				t.Errorf("epoch %d after %d", epoch, mine.Epoch)
			}
		})
	}
}

func refused(t *testing.T, err error, want checkpoint.Guard) {
	t.Helper()
	var refusal *checkpoint.RefusedError
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want success", err)
	case want != "" && !errors.As(err, &refusal):
		t.Errorf("got %v, want a refusal by guard %q", err, want)
	case want != "" && refusal.Guard != want:
		t.Errorf("refused by guard %q (%v), want %q", refusal.Guard, err, want)
	}
}

// A row in use must never be made anew: its position would be gone.
func TestCreateAndMarkReadyRefuseARowInUse(t *testing.T) {
	t.Parallel()
	_, store, mine := claimed(t)
	refused(t, store.Create(t.Context(), slot), checkpoint.GuardState)
	refused(t, store.MarkReady(t.Context(), checkpoint.Row{Slot: slot, LSN: 1}), checkpoint.GuardState)
	refused(t, store.MarkReady(t.Context(), checkpoint.Row{Slot: "gone", LSN: 1}), checkpoint.GuardRow)
	if row, _, err := store.Load(t.Context(), slot); err != nil || row.LSN != mine.LSN {
		t.Errorf("the position went from %v to %v, %v", mine.LSN, row.LSN, err)
	}
}

func TestClaimsAtTheSameTimeGetDifferentEpochs(t *testing.T) {
	t.Parallel()
	url, _, mine := claimed(t)
	const relays, times = 4, 10
	epochs := make([]int64, relays*times)
	var group errgroup.Group
	for i := range relays {
		store := open(t, url)
		group.Go(func() (err error) {
			for k := range times {
				claim := &epochs[i*times+k]
				if *claim, _, err = store.Claim(context.Background(), slot, mine.SystemID, mine.Timeline); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(epochs)
	for i, epoch := range epochs {
		if want := mine.Epoch + 1 + int64(i); epoch != want {
			t.Fatalf("epochs %v: want each from %d on once", epochs, mine.Epoch+1)
		}
	}
}

func TestReconnects(t *testing.T) {
	t.Parallel()
	url, store, mine := claimed(t)
	pgtest.Exec(t, url, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'walrelay'`)
	if err := store.Save(t.Context(), mine); err == nil {
		t.Fatal("the connection survived; this test shows nothing")
	}
	if err := store.Save(t.Context(), mine); err != nil {
		t.Errorf("the second call did not connect anew: %v", err)
	}
}

func TestLockedRowIsWaitedForAtMostTwoSeconds(t *testing.T) {
	t.Parallel()
	url, store, mine := claimed(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT FROM walrelay.checkpoint FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	const lockNotAvailable = "55P03"
	var pg *pgconn.PgError
	if err := store.Save(t.Context(), mine); !errors.As(err, &pg) || pg.Code != lockNotAvailable {
		t.Errorf("got %v, want SQLSTATE %s", err, lockNotAvailable)
	}
}

// With synchronous_standby_names every commit waits for a standby, which may be this relay.
func TestSaveDoesNotWaitForASynchronousStandby(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{})
	store, mine := claimedOn(t, s.URL("postgres"))
	pgtest.Exec(t, s.URL("postgres"), `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for names := ""; names != "*"; { // the reload reaches each session when it likes
		if err := conn.QueryRow(ctx, `SHOW synchronous_standby_names`).Scan(&names); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Save(ctx, mine); err != nil {
		t.Errorf("save: %v", err)
	}
	blocked, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := conn.Exec(blocked, `CREATE TABLE waits ()`); err == nil {
		t.Error("an ordinary commit did not wait; this test shows nothing")
	}
}

// What the script grants is enough for a running relay.
func TestPlainRole(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		_, mine := claimedOn(t, url)
		name := "plain_" + strings.ToLower(rand.Text()[:12])
		pgtest.Exec(t, url, `CREATE ROLE `+name+` LOGIN`, `GRANT USAGE ON SCHEMA walrelay TO `+name,
			`GRANT SELECT, UPDATE ON walrelay.checkpoint TO `+name)
		t.Cleanup(func() { pgtest.Exec(t, url, `DROP OWNED BY `+name, `DROP ROLE `+name) })

		store := open(t, strings.Replace(url, "postgres://postgres@", "postgres://"+name+"@", 1))
		epoch, _, err := store.Claim(t.Context(), slot, mine.SystemID, mine.Timeline)
		if err != nil {
			t.Fatal(err)
		}
		mine.Epoch = epoch
		if err := store.Save(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
	})
}

// claimed is a database with a row that the returned store has claimed. Saving the returned row would succeed.
func claimed(t *testing.T) (url string, store *checkpoint.Store, mine checkpoint.Row) {
	t.Helper()
	url = pgtest.Shared(t, "").Database(t)
	store, mine = claimedOn(t, url)
	return url, store, mine
}

func claimedOn(t *testing.T, url string) (*checkpoint.Store, checkpoint.Row) {
	t.Helper()
	migrate(t, url)
	store := open(t, url)
	id, timeline := identify(t, url)
	err := errors.Join(store.Create(t.Context(), slot), store.MarkReady(t.Context(), checkpoint.Row{Slot: slot, LSN: 0x100, ProducerID: checkpoint.NoProducer}))
	if err != nil {
		t.Fatal(err)
	}
	epoch, row, err := store.Claim(t.Context(), slot, id, timeline)
	if err != nil {
		t.Fatal(err)
	}
	row.Epoch = epoch
	return store, row
}

func open(t *testing.T, url string) *checkpoint.Store {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	store := checkpoint.NewStore(checkpoint.Always(config))
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	return store
}

func migrate(t *testing.T, url string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Apply(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// identify asks as the stream does, over the replication protocol.
func identify(t *testing.T, url string) (systemID string, timeline int32) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url+"&replication=database")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	system, err := pglogrepl.IdentifySystem(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return system.SystemID, system.Timeline
}
