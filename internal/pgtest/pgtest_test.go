package pgtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/walrelay/walrelay/internal/pgtest/process"
)

func TestMain(m *testing.M) { Main(m) }

// query returns the only field of the answer.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	last := results[len(results)-1]
	if len(last.Rows) != 1 {
		t.Fatalf("%s: %d rows", sql, len(last.Rows))
	}
	return string(last.Rows[0][0])
}

func TestServerOfEachAskedVersionDecodes(t *testing.T) {
	EachVersion(t, func(t *testing.T, s *Server) {
		url := s.Database(t)
		if got := query(t, url, "SHOW server_version_num")[:2]; got != s.Version() {
			t.Errorf("server says version %s, want %s", got, s.Version())
		}
		Exec(t, url, "CREATE TABLE t (a int)", "CREATE PUBLICATION p FOR TABLE t")
		query(t, url, "SELECT pg_create_logical_replication_slot('decodes_' || substr(current_database(), 6), 'pgoutput')")
		Exec(t, url, "INSERT INTO t VALUES (1)")
		got := query(t, url, `SELECT count(*) FROM pg_logical_slot_peek_binary_changes('decodes_' || substr(current_database(), 6),
			NULL, NULL, 'proto_version', '1', 'publication_names', 'p')`)
		if got != "4" { // begin, relation, insert, commit
			t.Errorf("%s changes, want 4", got)
		}
	})
}

func TestTwoVersionsAtOnce(t *testing.T) {
	for _, version := range []string{"14", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := Shared(t, version)
			if got := query(t, s.URL("postgres"), "SHOW server_version_num")[:2]; got != version {
				t.Errorf("server says version %s", got)
			}
		})
	}
}

func TestKilledServerRestartsWithItsData(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	url := s.Database(t)
	Exec(t, url, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (7)")
	pid, port := s.Pid(), s.Port()
	backend, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close(context.WithoutCancel(t.Context()))

	child := int(backend.PID())
	if err := s.Pause(child); err != nil { // so that it cannot notice the end of the postmaster
		t.Fatal(err)
	}

	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if s.Pid() != 0 {
		t.Errorf("pid %d after Kill", s.Pid())
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := process.AwaitGone(soon, []int{child}); err != nil {
		process.Thaw(child)
		t.Errorf("a backend outlived Kill: %v", err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Pid() == pid || s.Port() != port {
		t.Errorf("pid %d port %d, before pid %d port %d: want a new process on the same port", s.Pid(), s.Port(), pid, port)
	}
	if got := query(t, url, "SELECT a FROM t"); got != "7" {
		t.Errorf("read %s, want 7", got)
	}
	log, err := os.ReadFile(s.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "not properly shut down") {
		t.Error("the server's log knows nothing of a crash")
	}
}

func TestStopModes(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	conn, err := pgconn.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx, "smart"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("smart stop with a client connected: %v, want deadline exceeded", err)
	}
	if err := s.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context(), "immediate"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context(), "softly"); err == nil {
		t.Error("unknown mode accepted")
	}
}

func TestPausedServerIsSilentUntilContinued(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	if err := s.Pause(0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen server answered: %v", err)
	}
	if err := s.Continue(0); err != nil {
		t.Fatal(err)
	}
	if err := s.ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{Settings: map[string]string{"wal_sender_timeout": "7s", "search_path": "a, 'b'"}})
	for name, want := range map[string]string{
		"wal_level": "logical", "fsync": "off", "wal_sender_timeout": "7s", "search_path": "a, 'b'", "max_wal_senders": "20",
	} {
		if got := query(t, s.URL("postgres"), "SHOW "+name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

func TestEachServerIsASystemOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := Start(t, Options{}), Start(t, Options{})
	const id = "SELECT system_identifier FROM pg_control_system()"
	if x, y := query(t, a.URL("postgres"), id), query(t, b.URL("postgres"), id); x == y {
		t.Errorf("both have system identifier %s", x)
	}
}

func TestCopyHasTheSameHistory(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	Exec(t, s.URL("postgres"), "CREATE TABLE t (a int)")
	const id = "SELECT system_identifier FROM pg_control_system()"
	want := query(t, s.URL("postgres"), id)
	dir := filepath.Join(TempDir(t), "copy")
	if s.CopyData(dir) == nil {
		t.Fatal("a running server was copied")
	}
	if err := s.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyData(dir); err != nil {
		t.Fatal(err)
	}
	twin := Start(t, Options{Dir: dir})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, twin.URL("postgres"), id); got != want {
		t.Errorf("system identifier %s, want %s", got, want)
	}
	if got := query(t, twin.URL("postgres"), "SELECT count(*) FROM t"); got != "0" {
		t.Errorf("count %s", got)
	}
}

func TestDatabaseIsDroppedWithItsActiveSlot(t *testing.T) {
	s, outer := Shared(t, ""), t
	var name string
	t.Run("user", func(t *testing.T) {
		url := s.Database(t)
		name = query(t, url, "SELECT current_database()")
		Exec(t, url, "CREATE PUBLICATION p")
		conn, err := pgconn.Connect(t.Context(), url+"&replication=database")
		if err != nil {
			t.Fatal(err)
		}
		outer.Cleanup(func() { conn.Close(context.Background()) }) // still open when the database is dropped
		if _, err := conn.Exec(t.Context(), `CREATE_REPLICATION_SLOT busy LOGICAL pgoutput`).ReadAll(); err != nil {
			t.Fatal(err)
		}
		conn.Frontend().SendQuery(&pgproto3.Query{
			String: `START_REPLICATION SLOT busy LOGICAL 0/0 (proto_version '1', publication_names 'p')`})
		if err := conn.Frontend().Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ReceiveMessage(t.Context()); err != nil { // CopyBoth: the slot is active
			t.Fatal(err)
		}
	})
	if got := query(t, s.URL("postgres"), "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"); got != "0" {
		t.Errorf("database %s is still there", name)
	}
	if got := query(t, s.URL("postgres"), "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'busy'"); got != "0" {
		t.Error("its slot is still there")
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	if _, err := Launch(t.Context(), Options{Version: "9.6"}); err == nil || !strings.Contains(err.Error(), "14, 15, 16, 17, 18") {
		t.Errorf("unknown version: %v, want an error that lists the known ones", err)
	}
	_, err := Launch(t.Context(), Options{Settings: map[string]string{"wal_level": "loud"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "wal_level"`) {
		t.Errorf("bad setting: %v, want what postgres said", err)
	}
}

func TestFolderThatPostgresCannotReachIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root runs postgres as another account")
	}
	dir := filepath.Join(t.TempDir(), "data") // below a folder that only root may enter
	_, err := Launch(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "cannot enter") || !strings.Contains(err.Error(), dir) {
		t.Errorf("launch in %s: %v, want an error that says why", dir, err)
	}
}

func TestVersions(t *testing.T) {
	for list, want := range map[string]string{"": "18", "all": "14 15 16 17 18", "14,16": "14 16", "15": "15"} {
		t.Setenv("WALRELAY_POSTGRES_VERSIONS", list)
		if got := strings.Join(Versions(), " "); got != want {
			t.Errorf("%q: versions %s, want %s", list, got, want)
		}
	}
}
