package debezium

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

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// Version is the release in pom.xml, run by the Kafka Connect of kafkatest's version.
const Version = "3.6.1.Final"

//go:embed pom.xml
var project []byte

// Worker is a Kafka Connect worker with one connector. It belongs to one goroutine.
type Worker struct {
	*process.Process // nil before Start
	dir              string
	libs             string
}

// Options say what the worker reads and where it publishes.
type Options struct {
	// Dir holds the properties, the offsets and the log.
	Dir string
	// Bootstrap are the brokers' addresses.
	Bootstrap []string
	// Port, Database, Slot, Publication and Table name the source, a server on loopback. The publication must be there
	// already unless the connector's properties say otherwise.
	Port                               int
	Database, Slot, Publication, Table string
	// Worker and Connector are properties that go before those of this package.
	Worker, Connector map[string]string
	// Progress is told, in lines for a person, that jars are fetched. May be nil.
	Progress func(line string)
}

// New writes the properties as a user would. The first call on a machine has Maven fetch the jars.
func New(ctx context.Context, o Options) (*Worker, error) {
	libs, err := kafkatest.Dependencies(ctx, project, o.Progress, "debezium", Version, "libs")
	if err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	w := &Worker{dir: o.Dir, libs: libs}
	worker := map[string]string{
		"bootstrap.servers":            strings.Join(o.Bootstrap, ","),
		"key.converter":                "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":              "org.apache.kafka.connect.storage.StringConverter",
		"offset.storage.file.filename": w.Path("offsets"),
		"listeners":                    fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
		"plugin.discovery":             "hybrid_warn",
	}
	connector := map[string]string{
		"name":                        "outbox",
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"tasks.max":                   "1",
		"plugin.name":                 "pgoutput",
		"database.hostname":           "127.0.0.1",
		"database.port":               fmt.Sprint(o.Port),
		"database.user":               "postgres",
		"database.password":           "unused",
		"database.dbname":             o.Database,
		"topic.prefix":                "shop",
		"slot.name":                   o.Slot,
		"publication.name":            o.Publication,
		"publication.autocreate.mode": "disabled",
		"table.include.list":          o.Table,
		"snapshot.mode":               "no_data",
		"tombstones.on.delete":        "false",
		"transforms":                  "outbox",
		"transforms.outbox.type":      "io.debezium.transforms.outbox.EventRouter",
	}
	maps.Copy(worker, o.Worker)
	maps.Copy(connector, o.Connector)
	if err := w.write("worker.properties", worker); err != nil {
		return nil, err
	}
	return w, w.write("connector.properties", connector)
}

// Path is that of a file in the worker's folder: worker.properties, connector.properties, offsets or log.
func (w *Worker) Path(name string) string { return filepath.Join(w.dir, name) }

func (w *Worker) write(name string, properties map[string]string) error {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&b, "%s=%s\n", key, properties[key])
	}
	if err := os.WriteFile(w.Path(name), []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("configure Debezium: %w", err)
	}
	return nil
}

// Start starts the worker with flags for Java, on the offsets that the one before has left. The caller ends it.
func (w *Worker) Start(flags ...string) error {
	log, err := os.OpenFile(w.Path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start Debezium: %w", err)
	}
	defer log.Close() // the child has its own
	args := append(slices.Clone(flags), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"org.apache.kafka.connect.cli.ConnectStandalone", w.Path("worker.properties"), w.Path("connector.properties"))
	cmd := exec.Command("java", args...)
	cmd.Env = append(os.Environ(), "CLASSPATH="+filepath.Join(w.libs, "*"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, log, log
	if w.Process, err = process.Start(cmd); err != nil {
		return fmt.Errorf("start Debezium: %w", err)
	}
	return nil
}

// Said is the end of the log.
func (w *Worker) Said() string {
	text, err := os.ReadFile(w.Path("log"))
	if err != nil {
		return fmt.Sprintf("(the log cannot be read: %v)", err)
	}
	return string(text[max(0, len(text)-4096):])
}
