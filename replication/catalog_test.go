package replication

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/pgtest"
)

// The facts of an ordinary connection are those that the replication protocol tells.
func TestInspectServer(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		asRelay, role := asRole(t, url, "REPLICATION")
		server, err := InspectServer(t.Context(), connectSQL(t, asRelay))
		if err != nil {
			t.Fatal(err)
		}
		replica, err := Connect(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer replica.Close()
		got := System{ID: server.SystemID, Timeline: server.Timeline, Database: server.Database, Started: replica.System.Started}
		if diff := cmp.Diff(replica.System, got); diff != "" {
			t.Errorf("system (-IDENTIFY_SYSTEM +InspectServer):\n%s", diff)
		}
		major, _ := strconv.Atoi(s.Version())
		if server.Version/10000 != major || server.WALLevel != "logical" || server.InRecovery || server.DatabaseOID == 0 {
			t.Errorf("server %+v", server)
		}
		if server.Superuser || !server.Replication || server.Role != role {
			t.Errorf("role %s: superuser %v, replication %v", server.Role, server.Superuser, server.Replication)
		}
		if server.MaxSlotWALKeepSize >= 0 || server.WALSenderTimeout != time.Minute {
			t.Errorf("defaults: keep %d, timeout %v", server.MaxSlotWALKeepSize, server.WALSenderTimeout)
		}
		if err := server.Usable(); err != nil {
			t.Error(err)
		}
	})
}

func TestInspectServerSettings(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{Settings: map[string]string{
		"wal_level": "replica", "max_slot_wal_keep_size": "2GB", "wal_sender_timeout": "4s",
		"synchronous_standby_names": "", "synchronized_standby_slots": "one",
	}})
	server, err := InspectServer(t.Context(), connectSQL(t, s.URL("postgres")))
	if err != nil {
		t.Fatal(err)
	}
	if server.MaxSlotWALKeepSize != 2<<30 || server.WALSenderTimeout != 4*time.Second || server.SynchronizedStandbySlots != "one" {
		t.Errorf("server %+v", server)
	}
	wantSetupError(t, server.Usable(), "wal_level is replica")
	_, err = Setup(t.Context(), Config{URL: s.URL("postgres")}, SetupOptions{Init: true})
	wantSetupError(t, err, "ALTER SYSTEM SET wal_level = logical")
}

// A failover is waited for; a standby is no reason to stop.
func TestStandbyIsWaitedFor(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Options{})
	if err := primary.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(primary.Dir()), filepath.Base(primary.Dir())+"-standby")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := primary.CopyData(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	standby := pgtest.Start(t, pgtest.Options{Dir: dir})
	server, err := InspectServer(t.Context(), connectSQL(t, standby.URL("postgres")))
	if err != nil || !server.InRecovery || server.Timeline != 0 || !errors.Is(server.Usable(), ErrStandby) {
		t.Errorf("server %+v, %v, usable: %v", server, err, server.Usable())
	}
	_, err = Setup(t.Context(), Config{URL: standby.URL("postgres")}, SetupOptions{})
	if !errors.Is(err, ErrStandby) || Classify(err) == Stop {
		t.Errorf("got %v, want %v, which is waited for", err, ErrStandby)
	}
}

func TestWaitsFor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		setting string
		want    bool
	}{
		{"", false},
		{"*", true},
		{"other", false},
		{"walrelay/a", true},
		{"WalRelay/A", true},
		{`FIRST 1 (s1, "walrelay/a")`, true},
		{`ANY 2 (s1, s2, *)`, true},
		{`2 (s1,"walrelay/a")`, true},
		{`"*"`, true}, // Postgres takes it so, too
		{`"walrelay/a b", walrelay`, false},
		{`"walrelay/""a"`, false},
	}
	for _, test := range tests {
		s := Server{SynchronousStandbyNames: test.setting}
		if got := WaitsFor(s.SynchronousStandbyNames, "walrelay/a"); got != test.want {
			t.Errorf("%s: %v, want %v", test.setting, got, test.want)
		}
	}
}
