package cache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Path is the place of an entry below walrelay's cache: in the user's cache folder, or for root in /var/cache, since
// servers that refuse root must be able to reach it and cannot enter root's home.
func Path(elem ...string) string {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("walrelay-%d", os.Getuid())) // an account without a home
	if os.Getuid() == 0 {
		base = "/var/cache/walrelay"
	} else if dir, err := os.UserCacheDir(); err == nil {
		base = filepath.Join(dir, "walrelay")
	}
	return filepath.Join(append([]string{base}, elem...)...)
}

// Once makes sure that the folder dir exists. If it does not, fill builds its content in a temporary folder beside it,
// which then gets the name dir. A second process that asks meanwhile waits until ctx ends.
func Once(ctx context.Context, dir string, fill func(tmp string) error) error {
	if exists(dir) {
		return nil
	}
	if err := makeParents(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("make cache entry %s: %w", dir, err)
	}
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return fmt.Errorf("lock cache entry %s: %w", dir, err)
	}
	defer unlock()
	if exists(dir) {
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return fmt.Errorf("make cache entry %s: %w", dir, err)
	}
	defer os.RemoveAll(tmp) // finds nothing after the rename
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("make cache entry %s: %w", dir, err)
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("make cache entry %s: %w", dir, err)
	}
	return nil
}

// makeParents creates the missing folders of path readable for everybody, whatever the umask.
func makeParents(path string) error {
	if exists(path) {
		return nil
	}
	if err := makeParents(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return os.Chmod(path, 0o755)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock takes the file lock at path. The kernel frees it when the process dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			file.Close()
			return nil, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			file.Close()
			return nil, context.Cause(ctx)
		}
	}
}
