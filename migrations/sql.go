package migrations

import (
	"embed"
	_ "embed" // the two single files
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/*.sql
	files embed.FS
	//go:embed schema_version.sql
	versionSQL string
	//go:embed outbox.sql
	outboxSQL string
)

// numbered are the migrations as goose wants them: files named NNNNN_subject.sql.
func numbered() fs.FS {
	sub, err := fs.Sub(files, "sql")
	if err != nil {
		panic(err) // the name is a constant and valid
	}
	return sub
}

// SQL is what Apply does on a database without the schema, as plain SQL for a person to run. Apply finds nothing to
// do afterwards.
func SQL() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE SCHEMA %s;\n\n%s\n", Schema, versionSQL)
	fmt.Fprintf(&b, "INSERT INTO %s (version_id, is_applied) VALUES (0, true);\n", versionTable)
	names, err := fs.Glob(numbered(), "*.sql")
	if err != nil {
		return "", fmt.Errorf("list migrations: %w", err)
	}
	numbers, err := versions()
	if err != nil {
		return "", err
	}
	for i, name := range names {
		text, err := fs.ReadFile(numbered(), name)
		if err != nil {
			return "", fmt.Errorf("read migration: %w", err)
		}
		fmt.Fprintf(&b, "\n%s\n", withoutAnnotations(string(text)))
		fmt.Fprintf(&b, "INSERT INTO %s (version_id, is_applied) VALUES (%d, true);\n", versionTable, numbers[i])
	}
	return b.String(), nil
}

// withoutAnnotations drops goose's comment lines.
func withoutAnnotations(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-- +goose") {
			lines = append(lines, line)
		}
	}
	return strings.TrimRight(strings.Join(lines, ""), "\n")
}

// OutboxSQL creates an outbox table of the given name, with Debezium's column names.
func OutboxSQL(schema, table string) string {
	return strings.ReplaceAll(outboxSQL, "public.outbox", pgx.Identifier{schema, table}.Sanitize())
}
