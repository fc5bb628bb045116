package pgtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/walrelay/walrelay/internal/certificates"
	"github.com/walrelay/walrelay/internal/pgtest/cache"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// Options says what server to launch. The zero value is a server of the latest version in a temporary folder.
type Options struct {
	// Version is the major version, "14" to "18"; "" is "18".
	Version string
	// Dir is the data folder. "" is a temporary one, deleted by Close. A folder that holds a cluster already (of the same
	// version) is used as it is; one that is absent or empty gets a new cluster.
	Dir string
	// Settings are added to postgresql.conf and go before the harness's own, which are wal_level=logical, room for 20
	// senders and slots, small memory and fsync=off (a killed process loses nothing by that, only a machine would).
	Settings map[string]string
	// Secure turns TLS on, with certificates of its own, and lets nobody but the superuser in without it: the role certified
	// needs a client certificate of that name, every other one its password.
	Secure bool
	// Progress is told, in lines for a person, what takes long: the first download. May be nil.
	Progress func(line string)
}

// Server is a PostgreSQL server on loopback with the superuser postgres and no passwords.
type Server struct {
	version  string // major
	bin      string // folder of the binaries
	dir      string
	ours     bool // dir is deleted by Close
	port     int
	settings map[string]string
	account  *account
	tls      *certificates.Authority // nil when not Secure

	mu      sync.Mutex // held while the server starts or ends
	process *process.Process
}

func defaults() map[string]string {
	return map[string]string{
		"listen_addresses":          "127.0.0.1",
		"unix_socket_directories":   ".", // the data folder; a relative name escapes the limit of 107 bytes
		"wal_level":                 "logical",
		"max_wal_senders":           "20",
		"max_replication_slots":     "20",
		"max_connections":           "100",
		"shared_buffers":            "32MB",
		"fsync":                     "off",
		"autovacuum_naptime":        "10min",
		"max_prepared_transactions": "10",
		"log_line_prefix":           "%m [%p] %a ",
		"log_timezone":              "UTC",
		"timezone":                  "UTC",
	}
}

// Launch starts a server and waits until it answers. The caller must Close it.
func Launch(ctx context.Context, o Options) (*Server, error) {
	version, err := release(o.Version)
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	bin, err := binaries(ctx, version, o.Progress)
	if err != nil {
		return nil, err
	}
	major, _, _ := strings.Cut(version, ".")
	s := &Server{version: major, bin: bin, dir: o.Dir, settings: defaults(), account: acc}
	if err := s.prepareDir(ctx, version); err != nil {
		s.removeDir()
		return nil, fmt.Errorf("prepare PostgreSQL %s: %w", version, err)
	}
	if o.Secure {
		if err := s.secure(); err != nil {
			s.removeDir()
			return nil, fmt.Errorf("prepare PostgreSQL %s: %w", version, err)
		}
	}
	maps.Copy(s.settings, o.Settings)
	if err := s.startOnFreePort(ctx); err != nil {
		s.removeDir()
		return nil, err
	}
	return s, nil
}

// prepareDir chooses the data folder and fills it unless it holds a cluster.
func (s *Server) prepareDir(ctx context.Context, version string) error {
	if s.dir == "" {
		dir, err := temporaryDir(s.account)
		if err != nil {
			return err
		}
		s.dir, s.ours = dir, true
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if !s.account.reaches(filepath.Dir(dir)) {
		return fmt.Errorf("data folder %s: the account that runs postgres (uid %d, since postgres refuses root) cannot enter "+
			"a folder above it; choose one below %s", dir, s.account.uid, os.TempDir())
	}
	held, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if err == nil {
		if have := strings.TrimSpace(string(held)); have != s.version {
			return fmt.Errorf("data folder %s is of version %s, not %s", dir, have, s.version)
		}
		return nil
	}
	from, err := template(ctx, s.bin, version, s.account)
	if err != nil {
		return err
	}
	if err := copyFolder(from, dir, s.account); err != nil {
		return err
	}
	return renewSystemID(dir)
}

// temporaryDir makes a folder that acc can reach.
func temporaryDir(acc *account) (string, error) {
	if acc.reaches(os.TempDir()) {
		return os.MkdirTemp("", "walrelay-postgres-")
	}
	run := cache.Path("run")
	if err := os.MkdirAll(run, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(run, "postgres-")
}

func (s *Server) removeDir() {
	if s.ours {
		os.RemoveAll(s.dir)
	}
}

// Version is the major version, such as "18".
func (s *Server) Version() string { return s.version }

// Dir is the data folder.
func (s *Server) Dir() string { return s.dir }

// Log is the path of the server's log file, in the data folder; it is appended to over restarts.
func (s *Server) Log() string { return filepath.Join(s.dir, "server.log") }

// Port is the TCP port on 127.0.0.1, the same over restarts.
func (s *Server) Port() int { return s.port }

// URL is the connection string of a database for the superuser, such as "postgres://postgres@127.0.0.1:5432/app?sslmode=disable".
func (s *Server) URL(database string) string {
	return "postgres://postgres@127.0.0.1:" + strconv.Itoa(s.port) + "/" + database + "?sslmode=disable"
}

// Pid is the process id of the postmaster, 0 when the server does not run.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	return s.process.Pid()
}

func (s *Server) running() bool { return s.process != nil && s.process.Running() }
