package router

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/debezium.md anew")

const debeziumPage = "../docs/debezium.md"

// routerOptions are the options of the EventRouter, of 3.6.1 and of what the next version adds, with a value that is not
// the default and is understood.
var routerOptions = []struct{ name, value string }{
	{"table.field.event.id", "x"}, {"table.field.event.key", "x"}, {"table.field.event.type", "x"}, {"table.field.event.payload", "x"},
	{"table.field.event.timestamp", "x"}, {"table.field.event.schema.version", "x"},
	{"table.fields.additional.placement", "type:header"}, {"table.field.additional.missing", "ignore"},
	{"table.fields.additional.error.on.missing", "false"},
	{"table.expand.json.payload", "true"}, {"table.json.payload.null.behavior", "optional_bytes"},
	{"table.json.payload.empty.array.behavior", "optional_string"}, {"table.op.invalid.behavior", "error"},
	{"route.by.field", "x"}, {"route.topic.regex", "(.*)"}, {"route.topic.replacement", "$1"}, {"route.tombstone.on.empty.payload", "true"},
	{"tracing.span.context.field", "x"}, {"tracing.operation.name", "x"}, {"tracing.with.context.field.only", "true"},
	{"field.name.adjustment.mode", "avro"}, {"predicate", "x"}, {"negate", "true"},
}

// converterOptions are the converters that have a counterpart.
var converterOptions = []struct{ name, value string }{
	{"key.converter", stringConverter}, {"key.converter", jsonConverter}, {"key.converter", byteArrayConverter},
	{"value.converter", stringConverter}, {"value.converter", jsonConverter}, {"value.converter", byteArrayConverter},
	{"value.converter", binaryDataConverter}, {"value.converter", dbzBytesConverter},
	{"value.converter", "io.confluent.connect.avro.AvroConverter"},
	{"header.converter", simpleConverter}, {"header.converter", stringConverter}, {"header.converter", jsonConverter},
}

// said are the answers in the words of the page.
var said = map[Answer]string{
	Translated: "honoured", NotNeeded: "not needed", NotSupported: "different", Elsewhere: "honoured",
}

func optionTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Option | | Here |\n|---|---|---|\n")
	for _, o := range routerOptions {
		name := "transforms.outbox." + o.name
		writeRow(t, &b, o.name, answers(connector(map[string]string{name: o.value}))[name])
	}
	return b.String()
}

func converterTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Option | Class | | Here |\n|---|---|---|---|\n")
	for _, o := range converterOptions {
		f := answers(connector(map[string]string{o.name: o.value}))[o.name]
		writeRow(t, &b, o.name+"` | `"+o.value, f)
	}
	return b.String()
}

// propertyTable has the properties of the connector and of Connect, as they are answered.
func propertyTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Property | | Here |\n|---|---|---|\n")
	for _, name := range []string{"decimal.handling.mode", "time.precision.mode", "binary.handling.mode", "interval.handling.mode", "topic.prefix"} {
		value := map[string]string{"time.precision.mode": "connect"}[name]
		fill(&value, "string")
		if name == "binary.handling.mode" {
			value = "hex"
		}
		writeRow(t, &b, name, answers(connector(map[string]string{name: value}))[name])
	}
	for _, p := range debeziumProperties {
		writeRow(t, &b, p.pattern, Finding{p.pattern, p.answer, p.note})
	}
	return b.String()
}

func writeRow(t *testing.T, b *strings.Builder, option string, f Finding) {
	t.Helper()
	word, ok := said[f.Answer]
	if !ok || f.Note == "" {
		t.Errorf("%s has the answer %+v", option, f)
	}
	note := strings.NewReplacer("|", `\|`, "<", `\<`).Replace(f.Note)
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", option, word, note)
}

// What the page says of an option is what becomes of it.
func TestDebeziumPage(t *testing.T) {
	before, err := os.ReadFile(debeziumPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(before)
	for name, table := range map[string]string{"options": optionTable(t), "converters": converterTable(t), "properties": propertyTable(t)} {
		text = between(t, text, name, table)
	}
	if *update {
		if err := os.WriteFile(debeziumPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(text, string(before)); diff != "" {
		t.Errorf("%s is not what the router does (go test ./router -update writes it anew):\n%s", debeziumPage, diff)
	}
}

// between puts a table between its marks.
func between(t *testing.T, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+": generated -->\n", "<!-- end -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no mark %q with %q behind it", debeziumPage, begin, end)
	}
	return head + begin + "\n" + table + "\n" + end + tail
}

// The page names every preset.
func TestPresetsAreOnThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(debeziumPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Presets() {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("preset %s has no row", name)
		}
	}
}
