package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

const (
	launchTimeout  = 5 * time.Minute // the first one downloads
	cleanupTimeout = 30 * time.Second
)

// Start launches a server for one test, which may kill and restart it. It ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := launchForTests(o)
	if err != nil {
		t.Fatal(err)
	}
	endWith(t, s)
	return s
}

// StartStandby makes a physical standby of a server for one test; see Server.Standby.
func StartStandby(t testing.TB, primary *Server) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	s, err := primary.Standby(ctx)
	if err != nil {
		logTail(t, primary)
		t.Fatal(err)
	}
	endWith(t, s)
	return s
}

// endWith ends a server with the test.
func endWith(t testing.TB, s *Server) {
	t.Cleanup(func() {
		if t.Failed() {
			logTail(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func launchForTests(o Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	return Launch(ctx, o)
}

func logTail(t testing.TB, s *Server) {
	if log, err := os.Open(s.Log()); err == nil {
		defer log.Close()
		t.Logf("PostgreSQL %s, end of its log:\n%s", s.Version(), readFrom(log, 0))
	}
}

// shared are the servers of this test process, by version.
var shared = struct {
	sync.Mutex
	servers map[string]*Server
}{servers: map[string]*Server{}}

// Shared is a server for all tests of the process that need that version ("" is the latest), started at the first call.
// Tests must not stop it and must work in databases of their own (Database). The package's TestMain must call Main, or
// CloseShared after the tests.
func Shared(t testing.TB, version string) *Server {
	t.Helper()
	if version == "" {
		version = latest
	}
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[version]; s != nil {
		return s
	}
	s, err := launchForTests(Options{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	shared.servers[version] = s
	return s
}

// CloseShared ends the shared servers.
func CloseShared() {
	shared.Lock()
	defer shared.Unlock()
	for version, s := range shared.servers {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close shared PostgreSQL", version, err)
		}
		delete(shared.servers, version)
	}
}

// Main is for TestMain: it runs the tests, closes the shared servers, calls after (such as kafkatest.CloseShared), looks
// for leaked goroutines and exits.
func Main(m *testing.M, after ...func()) {
	goleak.VerifyTestMain(closing{m, append(after, CloseShared)})
}

// closing closes what tests share between the last test and the search for leaks.
type closing struct {
	tests *testing.M
	after []func()
}

func (c closing) Run() int {
	code := c.tests.Run()
	for _, f := range c.after {
		f()
	}
	return code
}

// Versions are the versions to test, from WALRELAY_POSTGRES_VERSIONS: "14,16", or "all"; by default the latest only.
func Versions() []string {
	switch list := os.Getenv("WALRELAY_POSTGRES_VERSIONS"); list {
	case "":
		return []string{latest}
	case "all":
		return majors()
	default:
		return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	}
}

// EachVersion runs test as a subtest on the shared server of each of Versions.
func EachVersion(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, version := range Versions() {
		t.Run("postgres"+version, func(t *testing.T) { test(t, Shared(t, version)) })
	}
}

// TempDir is a temporary folder for data folders, deleted at the end of the test. t.TempDir will not do when root runs
// the tests: only root can enter it, and the server is run by another account.
func TempDir(t testing.TB) string {
	t.Helper()
	acc, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := temporaryDir(acc)
	if err != nil {
		t.Fatal(err)
	}
	if err := acc.own(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Database creates an empty database and returns its URL. At the end of the test it and its replication slots are
// dropped, whoever uses them, unless the server does not run.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	admin := s.URL("postgres")
	Exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if s.Pid() == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := dropDatabase(ctx, admin, name); err != nil {
			t.Errorf("drop database %s: %v", name, err)
		}
	})
	return s.URL(name)
}

// dropDatabase ends the users of the database's slots first: an active slot would protect the database.
func dropDatabase(ctx context.Context, admin, name string) error {
	conn, err := pgconn.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		results, err := conn.Exec(ctx, fmt.Sprintf(`
			SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '%[1]s' AND active;
			SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '%[1]s' AND NOT active;
			SELECT count(*) FROM pg_replication_slots WHERE database = '%[1]s'`, name)).ReadAll()
		if err == nil && string(results[2].Rows[0][0]) == "0" {
			break
		}
		select { // active for a moment longer, or gone between the two lines
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("drop its slots: %w (last answer: %v)", context.Cause(ctx), err)
		}
	}
	_, err = conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)").ReadAll()
	return err
}

// Exec runs statements, each in a transaction of its own unless it has BEGIN and COMMIT itself, on one connection.
func Exec(t testing.TB, url string, sql ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range sql {
		if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
