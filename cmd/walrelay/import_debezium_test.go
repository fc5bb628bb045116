package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const connectorProperties = `name=orders
connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
database.hostname=127.0.0.1
database.user=app
database.password=s3cr3t
database.dbname=shop
topic.prefix=shop
slot.name=orders
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
`

const workerProperties = `bootstrap.servers=k:9092
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
`

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The file that comes out is a configuration, and the exit code tells whether it is whole.
func TestImportDebezium(t *testing.T) {
	t.Parallel()
	connector, worker := writeFile(t, "orders.properties", connectorProperties), writeFile(t, "worker.properties", workerProperties)

	got := walrelay(t, nil, "import-debezium", connector)
	if got.code != exitPerson || !oneLineWith(got.err, "walrelay: 3 to be decided", "key.converter, producer.override.bootstrap.servers, value.converter") ||
		!strings.Contains(got.out, "  brokers: # to be decided\n    - kafka.invalid:9092\n") || strings.Contains(got.out+got.err, "s3cr3t") {
		t.Errorf("alone: code %d, %s%s", got.code, got.out, got.err)
	}
	got = walrelay(t, nil, "import-debezium", connector, "--kafka-brokers", "a:1,b:2")
	if got.code != exitPerson || !strings.Contains(got.err, "2 to be decided") || !strings.Contains(got.out, "    - a:1\n    - b:2\n") {
		t.Errorf("with brokers: code %d, %s%s", got.code, got.out, got.err)
	}

	output := filepath.Join(t.TempDir(), "walrelay.yaml")
	got = walrelay(t, nil, "import-debezium", connector, "--worker", worker, "--output", output)
	if got.code != exitStopped || got.out != "" || got.err != "" {
		t.Errorf("with the worker: code %d, %s%s", got.code, got.out, got.err)
	}
	if got = walrelay(t, nil, "config", "check", "--config", output); got.code != exitStopped {
		t.Errorf("the file is refused: %s", got.err)
	}
	if got = walrelay(t, nil, "import-debezium", connector, "--output", output); got.code != exitConfiguration || !oneLineWith(got.err, "walrelay: open ", "file exists") {
		t.Errorf("over an existing file: code %d, %s", got.code, got.err)
	}
}

func TestImportDebeziumBadInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", "orders.json: the file is empty"},
		{`{"database.password": s3cr3t}`, "orders.json: not valid JSON: invalid character 's'"},
		{`["a"]`, "orders.json: a list; want the configuration of one connector"},
	} {
		got := walrelay(t, nil, "import-debezium", writeFile(t, "orders.json", c.text))
		if got.code != exitConfiguration || !oneLineWith(got.err, "walrelay: "+c.want) || strings.Contains(got.err, "s3cr3t") || got.out != "" {
			t.Errorf("%q: code %d, %s%s", c.text, got.code, got.out, got.err)
		}
	}
	if got := walrelay(t, nil, "import-debezium", "no/such/file"); got.code != exitConfiguration || !oneLineWith(got.err, "walrelay: open no/such/file: no such file") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
	if got := walrelay(t, nil, "import-debezium"); got.code != exitConfiguration || !oneLineWith(got.err, "walrelay: want one file; see walrelay import-debezium --help") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}
