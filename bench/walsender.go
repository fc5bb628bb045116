package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// awaitWalsender looks at the process that sends through a slot, 0 when there is none, until want accepts it.
func awaitWalsender(ctx context.Context, url, slot string, want func(pid int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = poll(ctx, 2*time.Millisecond, func() (bool, error) {
		var pid int
		err := conn.QueryRow(ctx, `SELECT coalesce(active_pid, 0) FROM pg_replication_slots WHERE slot_name = $1`, slot).Scan(&pid)
		return err == nil && want(pid), err
	})
	if err != nil {
		return fmt.Errorf("wait for the sender of slot %s: %w", slot, err)
	}
	return nil
}

// walsender waits until somebody reads through the slot, as long as alive returns nil, and returns the process that sends.
func walsender(ctx context.Context, url, slot string, alive func() error) (pid int, err error) {
	var dead error
	err = awaitWalsender(ctx, url, slot, func(p int) bool {
		pid, dead = p, alive()
		return p != 0 || dead != nil
	})
	return pid, errors.Join(dead, err)
}

// reaped waits until a process of the server is gone. Until its parent has reaped it, its CPU time is nobody's: neither
// the server's nor that of one of its children.
func reaped(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return poll(ctx, time.Millisecond, func() (bool, error) {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return errors.Is(err, fs.ErrNotExist), nil
	})
}
