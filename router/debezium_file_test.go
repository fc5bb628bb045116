package router

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDebezium(t *testing.T) {
	t.Parallel()
	want := map[string]string{"name": "orders", "tasks.max": "1", "tombstones.on.delete": "false", "database.password": `p"=\ ü`, "empty": ""}
	for name, content := range map[string]string{
		"options": `{"name": "orders", "tasks.max": 1, "tombstones.on.delete": false, "database.password": "p\"=\\ ü", "empty": null}`,
		"request": `{"name": "orders", "config": {"tasks.max": "1", "tombstones.on.delete": "false", "database.password": "p\"=\\ ü", "empty": ""}}`,
		"answer": `{"name": "x", "config": {"name": "orders", "tasks.max": "1", "tombstones.on.delete": "false", "database.password": "p\"=\\ ü", "empty": ""},
			"tasks": [{"connector": "orders", "task": 0}], "type": "source"}`,
		"expanded": `{"orders": {"info": {"name": "orders", "config": {"tasks.max": "1", "tombstones.on.delete": "false",
			"database.password": "p\"=\\ ü", "empty": ""}, "tasks": [], "type": "source"}}}`,
		"properties": "# by hand\n! and more\nname=orders\ntasks.max : 1\ntombstones.on.delete   false\r\ndatabase.password=p\"=\\\\ \\u00fc\nempty=\n",
		"continued":  "name = ord\\\n   ers\ntasks.max=1\ntombstones.on.delete=false\ndatabase.password = p\"=\\\\ ü\nempty",
	} {
		got, err := ParseDebezium([]byte("\ufeff" + content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestParseDebeziumRefuses(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                                       "empty",
		" \n":                                    "empty",
		`["orders", "stock"]`:                    "a list",
		`{"database.password": s3c}`:             "not valid JSON",
		`{"a": {"b": "s3c"}}`:                    `property "a" is not a single value`,
		`{"a": ["s3c"]}`:                         `property "a" is not a single value`,
		`{"config": {"a": ["s3c"]}}`:             `property "a" is not a single value`,
		`{"o": {"info": {}}, "s": {"info": {}}}`: "2 connectors (o, s)",
	} {
		got, err := ParseDebezium([]byte(content))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %v, %v", content, got, err)
		}
	}
}

func FuzzParseDebezium(f *testing.F) {
	f.Add([]byte(`{"o": {"info": {"config": {"a": 1}}}}`))
	f.Add([]byte("a=b\\\n c\nd:\\u00e"))
	f.Fuzz(func(t *testing.T, content []byte) {
		options, err := ParseDebezium(content)
		if err == nil {
			FromDebezium(options)
		}
	})
}
