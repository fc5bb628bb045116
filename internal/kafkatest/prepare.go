package kafkatest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest/cache"
)

// install is what a node needs of this machine's cache.
type install struct {
	version   string
	classPath string
	bootstrap string // the first file of a formatted node: the feature levels
	archive   string // of loaded classes, halves the start; "" for none
}

// prepare fills the cache.
func prepare(ctx context.Context, version string, fast bool, progress func(string)) (install, error) {
	java, err := javaVersion(ctx)
	if err != nil {
		return install{}, err
	}
	libs, err := jars(ctx, version, progress)
	if err != nil {
		return install{}, err
	}
	path, err := classPath(libs)
	if err != nil {
		return install{}, err
	}
	in := install{version: version, classPath: path}
	if in.bootstrap, err = bootstrap(ctx, version, path); err != nil {
		return install{}, err
	}
	if fast {
		in.archive, err = archive(ctx, in, java, progress)
	}
	return in, err
}

// bootstrap has Kafka's own tool format one node. The file it writes is the same for all nodes and clusters; what
// differs is in meta.properties (format).
func bootstrap(ctx context.Context, version, classPath string) (string, error) {
	const name = "bootstrap.checkpoint"
	dir := cache.Path("kafka", version, "formatted")
	err := cache.Once(ctx, dir, func(tmp string) error {
		n := node{id: 1, dir: tmp, properties: map[string]string{
			"process.roles":             "broker,controller",
			"controller.quorum.voters":  "1@127.0.0.1:9093",
			"controller.listener.names": "CONTROLLER",
			"listeners":                 "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
		}}
		if err := n.writeProperties(); err != nil {
			return fmt.Errorf("format Kafka: %w", err)
		}
		java := exec.CommandContext(ctx, "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classPath,
			"kafka.tools.StorageTool", "format", "-t", newID(), "-c", n.propertiesFile())
		if out, err := java.CombinedOutput(); err != nil {
			return fmt.Errorf("format Kafka: %w\n%s", err, out)
		}
		return os.Rename(filepath.Join(n.data(), name), filepath.Join(tmp, name))
	})
	return filepath.Join(dir, name), err
}

// format makes the data folder of a node as Kafka's tool does, in no time. A folder that has one is left as it is.
func (in install) format(n node, cluster string) error {
	meta := filepath.Join(n.data(), "meta.properties")
	if _, err := os.Stat(meta); err == nil {
		return nil
	}
	if err := os.MkdirAll(n.data(), 0o755); err != nil {
		return err
	}
	checkpoint, err := os.ReadFile(in.bootstrap)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.data(), "bootstrap.checkpoint"), checkpoint, 0o644); err != nil {
		return err
	}
	return os.WriteFile(meta, fmt.Appendf(nil, "version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", cluster, n.id, newID()), 0o644)
}

// newID makes an id of Kafka's kind: 16 random bytes in 22 characters, none of them "-" at the begin.
func newID() string {
	id := make([]byte, 16)
	rand.Read(id)
	id[0] &= 0x7f // the first character is one of the first 32
	return base64.RawURLEncoding.EncodeToString(id)
}

// archive runs a node once to write down the classes it loads, in the form the JVM maps at its next start. It is bound
// to the Java and the class path.
func archive(ctx context.Context, in install, java []byte, progress func(string)) (string, error) {
	key := sha256.Sum256(append(java, in.classPath...))
	dir := cache.Path("kafka", in.version, fmt.Sprintf("archive-%x", key[:6]))
	const name = "kafka.jsa"
	err := cache.Once(ctx, dir, func(tmp string) error {
		defer cache.Report(progress, "preparing a faster start of Kafka (once)")()
		c, err := launch(ctx, Options{FastJVM: true}, in, "-XX:ArchiveClassesAtExit="+filepath.Join(tmp, name))
		if err != nil {
			return err
		}
		defer c.Close()
		// Use it a little, so that the classes of the request path are in.
		if err := c.CreateTopic(ctx, "warm", 1, 1, nil); err != nil {
			return err
		}
		if _, err := ReadAll(ctx, c.Bootstrap(), "warm"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := c.nodes[0].process.Stop(ctx, syscall.SIGTERM); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(tmp, name)); err != nil {
			return fmt.Errorf("prepare a faster start of Kafka: java wrote no archive: %w", err)
		}
		return nil
	})
	return filepath.Join(dir, name), err
}
