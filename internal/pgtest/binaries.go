package pgtest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
	"github.com/walrelay/walrelay/internal/pgtest/cache"
)

// latest is the version used when none is asked for.
const latest = "18"

// releases are the builds in use, by major version.
var releases = map[string]string{
	"14": "14.18.0",
	"15": "15.13.0",
	"16": "16.9.0",
	"17": "17.5.0",
	"18": "18.3.0",
}

// majors lists the known major versions, oldest first.
func majors() []string {
	var list []string
	for major := range releases {
		list = append(list, major)
	}
	slices.Sort(list)
	return list
}

// release is the build of a major version; "" is the latest.
func release(major string) (string, error) {
	if major == "" {
		major = latest
	}
	version, known := releases[major]
	if !known {
		return "", fmt.Errorf("postgres version %q: unknown, have %s", major, strings.Join(majors(), ", "))
	}
	return version, nil
}

// binaries returns the folder with bin, lib and share of a release, downloading it at the first use.
func binaries(ctx context.Context, version string, progress func(string)) (string, error) {
	dir := cache.Path("postgres", version)
	err := cache.Once(ctx, dir, func(tmp string) error {
		stop := cache.Report(progress, fmt.Sprintf("downloading PostgreSQL %s (about 15 MB, once)", version))
		defer stop()
		if err := download(version, tmp); err != nil {
			return fmt.Errorf("download PostgreSQL %s: %w", version, err)
		}
		return readableByAll(tmp)
	})
	return dir, err
}

// download unpacks a release into dir. The library has no call that only downloads: its Start goes on to the server. It
// is handed a data folder that looks initialised but is empty, so it skips initdb, and postgres refuses the folder; the
// binaries are complete by then.
func download(version, dir string) error {
	scratch, err := os.MkdirTemp("", "walrelay-postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	data := filepath.Join(scratch, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(version, ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	defer http.DefaultClient.CloseIdleConnections() // the library leaves one open, with two goroutines
	err = embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.PostgresVersion(version)).
		Port(uint32(port)).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "run")).
		BinariesPath(dir).
		DataPath(data).
		Logger(io.Discard)).Start()
	if err == nil {
		return fmt.Errorf("the server started on an empty data folder %s", data)
	}
	if !strings.HasPrefix(err.Error(), "could not start postgres") {
		return err
	}
	return nil
}

// readableByAll lets the account that runs the server use what we unpacked, whatever our umask.
func readableByAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o111 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
