package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/migrations"
)

// buildRelay builds the binary that users get, from the module of the working directory, and returns its path. A profile
// needs its symbols, which users do not get.
func buildRelay(ctx context.Context, dir string, symbols bool) (string, error) {
	binary := filepath.Join(dir, "walrelay")
	flags := "-s -w"
	if symbols {
		flags = ""
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", flags, "-o", binary, "github.com/walrelay/walrelay/cmd/walrelay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build walrelay: %w\n%s", err, out)
	}
	return binary, nil
}

// adopt lets walrelay read through a slot that it has not made: it writes the checkpoint row that init would have written.
func adopt(ctx context.Context, url, slot string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	if err := migrations.Apply(ctx, config); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var position string
	err = conn.QueryRow(ctx, `SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1`, slot).Scan(&position)
	if err != nil {
		return fmt.Errorf("read the position of slot %s: %w", slot, err)
	}
	consistent, err := lsn.ParseEnd(position)
	if err != nil {
		return err
	}
	store := checkpoint.NewStore(checkpoint.Always(config))
	return errors.Join(store.Create(ctx, slot), store.MarkReady(ctx, checkpoint.Row{Slot: slot, LSN: consistent, ProducerID: checkpoint.NoProducer}), store.Close(ctx))
}

// relay is a running walrelay.
type relay struct {
	cmd     *exec.Cmd
	process *process.Process
	log     string
}

// startRelay starts walrelay on a slot that was adopted.
func startRelay(binary, url, slot string, brokers []string, dir string) (*relay, error) {
	r := &relay{cmd: exec.Command(binary, "run"), log: filepath.Join(dir, slot+".log")}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.Env = append(withoutOurs(os.Environ()),
		"WALRELAY_POSTGRES_URL="+url,
		"WALRELAY_POSTGRES_SLOT="+slot,
		"WALRELAY_POSTGRES_PUBLICATION="+publication,
		"WALRELAY_KAFKA_BROKERS="+strings.Join(brokers, ","),
		"WALRELAY_HTTP_LISTEN=127.0.0.1:0",
	)
	r.process, err = process.Start(r.cmd)
	return r, err
}

// withoutOurs drops the variables that would configure walrelay, or its connection as libpq has them.
func withoutOurs(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "WALRELAY_") && !strings.HasPrefix(entry, "PG") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func (r *relay) pid() int { return r.process.Pid() }

// alive returns an error when the relay has ended.
func (r *relay) alive() error {
	if r.process.Running() {
		return nil
	}
	return fmt.Errorf("walrelay ended: %v; its log:\n%s", r.process.Err(), r.said())
}

// said is the end of the relay's log.
func (r *relay) said() []byte {
	text, _ := os.ReadFile(r.log)
	return text[max(0, len(text)-4096):]
}

// stop ends the relay with SIGTERM, which must be clean, and returns the CPU time that it has used in all.
func (r *relay) stop() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.process.Stop(ctx, syscall.SIGTERM); err != nil {
		return 0, errors.Join(err, r.process.Kill())
	}
	if err := r.process.Err(); err != nil {
		return 0, fmt.Errorf("walrelay: %w; its log:\n%s", err, r.said())
	}
	return cpuOf(r.cmd), nil
}

// cpuOf is the CPU time of a command that has ended.
func cpuOf(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
