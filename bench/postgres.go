package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// PostgresBin is where Debian's package postgresql-15 has its programs, pg_recvlogical among them, which the binaries of
// the tests lack.
const PostgresBin = "/usr/lib/postgresql/15/bin"

// settings: durable, as in production; memory and checkpoints such that nothing but the benchmark causes writes.
const settings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = '.'
wal_level = logical
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off
`

// postgres is a server of our own with the superuser postgres, without passwords.
type postgres struct {
	bin, data string
	port      int
	process   *process.Process
}

func dataFolder(dir string) string { return filepath.Join(dir, "postgres") }

// startPostgres starts a server with its data and its log below dir.
func startPostgres(ctx context.Context, bin, dir string) (*postgres, error) {
	for _, program := range []string{"initdb", "postgres", "pg_recvlogical"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return nil, fmt.Errorf("find PostgreSQL: %w; install it (apt-get install postgresql-15) or name its folder of programs", err)
		}
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p := &postgres{bin: bin, data: dataFolder(dir), port: ports[0]}
	if err := p.initialise(ctx); err != nil {
		return nil, fmt.Errorf("initialise PostgreSQL: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "postgres.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", p.data, "-p", strconv.Itoa(p.port))
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.data, log, log
	if err := unprivileged(cmd); err != nil {
		return nil, err
	}
	if p.process, err = process.Start(cmd); err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx); err != nil {
		_ = p.process.Kill()
		return nil, fmt.Errorf("start PostgreSQL: %w; see %s", err, log.Name())
	}
	return p, nil
}

func (p *postgres) initialise(ctx context.Context) error {
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "initdb"), "--pgdata", p.data, "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C")
	cmd.Dir = p.data
	if err := unprivileged(cmd); err != nil {
		return err
	}
	if cmd.SysProcAttr != nil {
		owner := cmd.SysProcAttr.Credential
		if err := os.Chown(p.data, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	conf, err := os.OpenFile(filepath.Join(p.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer conf.Close()
	_, err = conf.WriteString(settings)
	return err
}

// unprivileged makes cmd a command of the account postgres when we are root, which PostgreSQL refuses. Debian's package
// brings that account.
func unprivileged(cmd *exec.Cmd) error {
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("find an account to run PostgreSQL, which refuses root: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return nil
}

func (p *postgres) awaitReady(ctx context.Context) error {
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		if !p.process.Running() {
			return false, fmt.Errorf("it ended: %v", p.process.Err())
		}
		conn, err := pgx.Connect(ctx, p.url("postgres"))
		if err != nil {
			return false, nil
		}
		return true, conn.Close(ctx)
	})
}

func (p *postgres) url(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.port, database)
}

// stop shuts the server down. It is killed when that takes too long.
func (p *postgres) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.process.Stop(ctx, syscall.SIGINT); err != nil {
		return p.process.Kill()
	}
	return nil
}

// poll calls done at once and then at every interval until it reports true or an error.
func poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
