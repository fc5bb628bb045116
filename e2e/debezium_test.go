package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/internal/workload"
)

// debeziumVersion is the release in takeover/pom.xml, run by the Kafka Connect of kafkatest's version.
const debeziumVersion = "3.6.1.Final"

//go:embed takeover/pom.xml
var debeziumProject []byte

// debezium is a Kafka Connect worker in standalone mode with one connector.
type debezium struct {
	*process.Process
	dir  string // properties, offsets and log
	libs string
}

// newDebezium writes the worker's and the connector's properties as a user would, for the tables of the workload.
func newDebezium(t *testing.T, postgres *pgtest.Server, kafka *kafkatest.Cluster) *debezium {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first time downloads
	defer cancel()
	libs, err := kafkatest.Dependencies(ctx, debeziumProject, func(line string) { t.Log(line) }, "debezium", debeziumVersion, "libs")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	d := &debezium{dir: t.TempDir(), libs: libs}
	d.write(t, "worker.properties", map[string]string{
		"bootstrap.servers":            strings.Join(kafka.Bootstrap(), ","),
		"key.converter":                "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":              "org.apache.kafka.connect.storage.StringConverter",
		"offset.storage.file.filename": filepath.Join(d.dir, "offsets"),
		"offset.flush.interval.ms":     "5000", // so far the slot trails; as shipped it is a minute
		"listeners":                    fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
		"plugin.discovery":             "hybrid_warn",
	})
	d.write(t, "connector.properties", map[string]string{
		"name":                        "orders-outbox",
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"tasks.max":                   "1",
		"plugin.name":                 "pgoutput",
		"database.hostname":           "127.0.0.1",
		"database.port":               fmt.Sprint(postgres.Port()),
		"database.user":               "postgres",
		"database.password":           "unused",
		"database.dbname":             "postgres",
		"topic.prefix":                "shop",
		"slot.name":                   "debezium",
		"publication.name":            "dbz_publication",
		"publication.autocreate.mode": "filtered",
		"table.include.list":          "public.outbox",
		"snapshot.mode":               "no_data",
		"tombstones.on.delete":        "false",
		"heartbeat.interval.ms":       "10000",
		"transforms":                  "outbox",
		"transforms.outbox.type":      "io.debezium.transforms.outbox.EventRouter",
	})
	return d
}

func (d *debezium) path(name string) string { return filepath.Join(d.dir, name) }

func (d *debezium) write(t *testing.T, name string, properties map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&b, "%s=%s\n", key, properties[key])
	}
	if err := os.WriteFile(d.path(name), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts the worker, on the offsets that the one before has left. It is killed at the end of the test.
func (d *debezium) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(d.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"org.apache.kafka.connect.cli.ConnectStandalone", d.path("worker.properties"), d.path("connector.properties"))
	cmd.Env = append(os.Environ(), "CLASSPATH="+filepath.Join(d.libs, "*"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, log, log
	started, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	d.Process = started
	t.Cleanup(func() {
		if err := started.Kill(); err != nil {
			t.Error(err)
		}
	})
}

// awaitMore waits until Debezium has published n more records.
func (d *debezium) awaitMore(t *testing.T, kafka *kafkatest.Cluster, n int64) {
	t.Helper()
	have := topicsLength(t, kafka)
	awaitWithin(t, 5*time.Minute, 500*time.Millisecond, fmt.Sprintf("%d more records of Debezium", n), func() error {
		if !d.Running() {
			t.Fatalf("Debezium has ended (%v):\n%s", d.Err(), d.said(t))
		}
		if now := topicsLength(t, kafka); now < have+n {
			return fmt.Errorf("%d so far; its log:\n%s", now-have, d.said(t))
		}
		return nil
	})
}

func (d *debezium) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(d.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	return last(string(text), 4096)
}

// topicsLength is how many records the topics of the workload have that are there already.
func topicsLength(t *testing.T, kafka *kafkatest.Cluster) int64 {
	t.Helper()
	all, err := kafkatest.Topics(t.Context(), kafka.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(workload.Topics, name) })
	if len(all) == 0 {
		return 0
	}
	n, err := kafkatest.Length(t.Context(), kafka.Bootstrap(), all...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
