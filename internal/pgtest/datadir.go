package pgtest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/walrelay/walrelay/internal/pgtest/cache"
)

// settingsFile, in the data folder, holds the settings of the harness. It is included at the end of postgresql.conf;
// what ALTER SYSTEM sets is read later and overrides it.
const settingsFile = "harness.conf"

// template returns a data folder made by initdb, once for each release: copying it is many times faster than initdb.
func template(ctx context.Context, bin string, version string, acc *account) (string, error) {
	dir := cache.Path("postgres", version+"-data")
	err := cache.Once(ctx, dir, func(tmp string) error {
		if err := acc.own(tmp); err != nil {
			return fmt.Errorf("prepare data folder: %w", err)
		}
		data := filepath.Join(tmp, "data")
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "bin", "initdb"), "--pgdata", data, "--username", "postgres",
			"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
		cmd.Dir = tmp
		acc.run(cmd)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb of PostgreSQL %s: %w\n%s", version, err, out)
		}
		conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("prepare data folder: %w", err)
		}
		defer conf.Close()
		if _, err := fmt.Fprintf(conf, "include_if_exists '%s'\n", settingsFile); err != nil {
			return fmt.Errorf("prepare data folder: %w", err)
		}
		return nil
	})
	return filepath.Join(dir, "data"), err
}

// copyFolder copies the folder from to the folder to, which may exist, and gives all of it to acc.
func copyFolder(from, to string, acc *account) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			err = os.MkdirAll(target, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(path, target)
		default:
			return nil // a socket of a server that was killed
		}
		if err != nil {
			return err
		}
		return acc.own(target)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// writeSettings writes the settings of the harness into the data folder.
func writeSettings(data string, settings map[string]string, acc *account) error {
	var lines []string
	for name, value := range settings {
		lines = append(lines, fmt.Sprintf("%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''")))
	}
	slices.Sort(lines)
	path := filepath.Join(data, settingsFile)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		return err
	}
	return acc.own(path)
}
