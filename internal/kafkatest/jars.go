package kafkatest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/walrelay/walrelay/internal/pgtest/cache"
)

// Releases of Apache Kafka: the one that tests use, as in pom.xml, and the last of the series before.
const (
	latest = "4.3.0"
	Older  = "3.9.1"
)

const dependencyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

//go:embed pom.xml
var pom []byte

// Jars returns the folder with Kafka's jars. The first call on a machine has Maven fetch them (50 MB with its plugins).
func Jars(ctx context.Context) (dir string, err error) { return jars(ctx, latest, nil) }

func jars(ctx context.Context, version string, progress func(string)) (string, error) {
	return Dependencies(ctx, bytes.ReplaceAll(pom, []byte(latest), []byte(version)), progress, "kafka", version, "libs")
}

// Dependencies returns the folder of the cache with the jars that a Maven project needs at run time. The first call on a
// machine has Maven fetch them; the names lead to the folder and must change with the project. progress may be nil.
func Dependencies(ctx context.Context, project []byte, progress func(string), names ...string) (dir string, err error) {
	dir = cache.Path(names...)
	err = cache.Once(ctx, dir, func(tmp string) error {
		if _, err := exec.LookPath("mvn"); err != nil {
			return fmt.Errorf("%w; install Maven", err)
		}
		defer cache.Report(progress, fmt.Sprintf("fetching %s with Maven (about 50 MB, once)", strings.Join(names, " ")))()
		folder, err := os.MkdirTemp("", "walrelay-maven-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		file := filepath.Join(folder, "pom.xml")
		if err := os.WriteFile(file, project, 0o600); err != nil {
			return err
		}
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, dependencyPlugin+":copy-dependencies",
			"-DoutputDirectory="+tmp, "-DincludeScope=runtime")
		if out, err := mvn.CombinedOutput(); err != nil {
			return fmt.Errorf("maven: %w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("fetch the jars of %s: %w", strings.Join(names, " "), err)
	}
	return dir, nil
}

// classPath lists the jars in a fixed order: an archive of classes is bound to it.
func classPath(libs string) (string, error) {
	list, err := filepath.Glob(filepath.Join(libs, "*.jar"))
	if err != nil || len(list) == 0 {
		return "", fmt.Errorf("list Kafka's jars: none in %s", libs)
	}
	slices.Sort(list)
	return strings.Join(list, string(os.PathListSeparator)), nil
}

// javaVersion is what the installed Java says of itself.
func javaVersion(ctx context.Context) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run java: %w; install Java 17 or newer", err)
	}
	return bytes.TrimSpace(out), nil
}
