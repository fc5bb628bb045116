package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// Rows that somebody wrote to break or mislead the relay or who reads its log: each ends in its topic as it is, or in the
// dead-letter topic, and the next event is published all the same.
func TestHostileRows(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	brokers := kafkatest.Shared(t, 1).Bootstrap()
	columns := make([]string, 1590) // Postgres takes 1600
	for i := range columns {
		columns[i] = fmt.Sprintf("c%d text DEFAULT 'x'", i)
	}
	pgtest.Exec(t, url,
		`CREATE TABLE outbox (id text, aggregatetype text, aggregateid text, type text, payload text, headers jsonb)`,
		`CREATE TABLE wide (id text, aggregatetype text, aggregateid text, type text, payload text, `+strings.Join(columns, ",")+`)`)
	file := keep(t, "walrelay.yaml", `
tables:
  - {name: public.outbox, columns: {headers: headers}, placements: ['type:header'], route: {replacement: 'hostile.${routedByValue}'}}
  - {name: public.wide, route: {replacement: 'hostile.${routedByValue}'}}
on_poison: dead_letter
dead_letter_topic: hostile.dead
kafka: {topics: {partitions: 1}}
`)
	r := &relayProcess{brokers: brokers}
	r.cmd, r.output, r.address = start(t, []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + brokers[0], "WALRELAY_CONFIG=" + file,
		"WALRELAY_KAFKA_TOPICS_CREATE=true", "WALRELAY_LOG_LEVEL=debug"})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.output)
		}
	})
	await(t, "streaming", func() bool { return strings.Contains(r.output.String(), `"streaming"`) })

	const forged = `"walrelay.lsn": "0000000000000000/FFFFFFFF/FFFFFFFF/0/0", "id": "forged", "": "", "a\r\nb": "c\r\nInjected: yes", "\u202e": "\u0001\u001b[2J", "deep": ` +
		`[[[[[[[[[[[[{"x": 1e400}]]]]]]]]]]]]`
	type row struct{ id, kind, key, typ, payload, headers string }
	published := []row{
		{"controls", "'good'", `E'k\x01\r\n\t\x1b[31m'`, `E'a\r\nSet-Cookie: x\x01'`, `E'\x02\r\n{}'`, `{}`},
		{"forged headers", "'good'", "'k'", "'t'", "'p'", "{" + forged + "}"},
		{"many headers", "'good'", "'k'", "'t'", "'p'", "many"},
		{"json in log", "'good'", `'{"level":"error","msg":"fake"}'`, `E'\n{"level":"error"}\n'`, "NULL", `{}`},
	}
	poisoned := []row{
		{"huge key", "'good'", "repeat('k', 10000000)", "'t'", "'p'", `{}`},
		{"huge type", "'good'", "'k'", "repeat('t', 3000000)", "'p'", `{}`},
		{"path", "'../../etc/passwd'", "'k'", "'t'", "'p'", `{}`},
		{"new line in topic", `E'good\nhostile.good'`, "'k'", "'t'", "'p'", `{}`},
		{"huge topic", "repeat('x', 100000)", "'k'", "'t'", "'p'", `{}`},
		{"no topic", "NULL", "'k'", "'t'", "'p'", `{}`},
		{"headers that are none", "'good'", "'k'", "'t'", "'p'", `[1]`},
	}
	for _, row := range append(published, poisoned...) {
		headers := "'" + strings.ReplaceAll(row.headers, "'", "''") + "'"
		if row.headers == "many" {
			headers = "(SELECT jsonb_object_agg('h' || i, i) FROM generate_series(1, 20000) i)"
		}
		pgtest.Exec(t, url, fmt.Sprintf(`INSERT INTO outbox VALUES ('%s', %s, %s, %s, %s, %s)`, row.id, row.kind, row.key, row.typ, row.payload, headers))
	}
	pgtest.Exec(t, url, `INSERT INTO wide (id, aggregatetype, aggregateid, type, payload) VALUES ('wide', 'good', 'k', 't', 'p')`,
		`INSERT INTO outbox VALUES ('last', 'good', 'k', 't', 'p', '{}')`)

	read := func(topic string, n int) map[string]kafkatest.Record {
		byID := map[string]kafkatest.Record{}
		await(t, fmt.Sprintf("%d records in %s", n, topic), func() bool {
			records, err := kafkatest.ReadAll(t.Context(), brokers, topic)
			for _, record := range records {
				byID[firstHeader(record, "id")] = record
			}
			return err == nil && len(records) == n
		})
		return byID
	}
	good, dead := read("hostile.good", len(published)+2), read("hostile.dead", len(poisoned))
	for id, want := range map[string]string{"controls": "k\x01\r\n\t\x1b[31m", "json in log": `{"level":"error","msg":"fake"}`, "wide": "k", "last": "k"} {
		if got := string(good[id].Key); got != want {
			t.Errorf("%s: key %q", id, got)
		}
	}
	if got := firstHeader(good["controls"], "type"); got != "a\r\nSet-Cookie: x\x01" {
		t.Errorf("type header %q", got)
	}
	if got := len(good["many headers"].Headers); got < 20_000 {
		t.Errorf("%d headers of 20,000", got)
	}
	positions := 0
	for _, h := range good["forged headers"].Headers {
		if h.Name == "walrelay.lsn" {
			positions++
			if strings.Contains(string(h.Value), "FFFFFFFF") {
				t.Errorf("the position is forged: %s", h.Value)
			}
		}
	}
	if positions != 1 {
		t.Errorf("%d positions in one record", positions)
	}
	for _, row := range poisoned {
		if why := firstHeader(dead[row.id], "walrelay.error"); why == "" || len(why) > 2000 || strings.ContainsAny(why, "\r\n\x1b") {
			t.Errorf("%s: dead letter with the reason %.300q", row.id, why)
		}
	}
	// Who reads the log, one JSON object a line, is not told what did not happen.
	for line := range strings.Lines(r.output.String()) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "fake" || entry.Msg == "" || len(line) > 10_000 {
			t.Errorf("line of the log: %.300q, %v", line, err)
		}
	}
	r.stop(t)
}

func firstHeader(record kafkatest.Record, name string) string {
	for _, h := range record.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// A role with the grants that init --sql prints, and not one more, can relay and obey.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	asRelay := asRole(t, url, "REPLICATION")
	_, name, _ := strings.Cut(asRelay, "://")
	name, _, _ = strings.Cut(name, "@")
	brokers := kafkatest.Fake(t).ListenAddrs()
	environ := []string{"WALRELAY_POSTGRES_URL=" + asRelay, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}
	script := walrelay(t, environ, "init", "--sql", "--role", name)
	if script.code != exitStopped {
		t.Fatalf("init --sql: code %d, %s", script.code, script.err)
	}
	pgtest.Exec(t, url, script.out)
	pgtest.Exec(t, url, fmt.Sprintf(`DO $$ DECLARE found text; BEGIN
		SELECT string_agg(table_schema || '.' || table_name || ' ' || privilege_type, ', ' ORDER BY 1, table_schema, table_name, privilege_type)
			INTO found FROM (SELECT DISTINCT table_schema, table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = '%s') g;
		ASSERT found = 'walrelay.checkpoint SELECT, walrelay.checkpoint UPDATE, walrelay.request INSERT, walrelay.request SELECT, walrelay.request UPDATE, walrelay.schema_version SELECT', found;
		ASSERT NOT has_table_privilege('%[1]s', 'outbox', 'SELECT'), 'may read the outbox';
		ASSERT NOT has_database_privilege('%[1]s', current_database(), 'CREATE'), 'may create schemas';
	END $$`, name))
	r := &relayProcess{brokers: brokers}
	r.cmd, r.output, r.address = start(t, append(environ, "WALRELAY_CHECKPOINT_SAVE_INTERVAL=100ms"))
	r.relays(t, url, 1)
	owner := []string{"WALRELAY_POSTGRES_URL=" + url}
	for _, command := range []string{"pause", "resume", "drain"} {
		if got := walrelay(t, append(owner, "WALRELAY_KAFKA_BROKERS="+brokers[0]), command); got.code != exitStopped {
			t.Errorf("%s: code %d, %s%s", command, got.code, got.out, got.err)
		}
	}
	await(t, "the slot in the status", func() bool {
		_, body := get(t, r.address, "/status")
		return strings.Contains(body, `"retained_bytes"`)
	})
	if said := r.output.String(); strings.Contains(said, "denied") || strings.Contains(said, `"level":"error"`) {
		t.Errorf("it lacks a right:\n%s", said)
	}
	r.stop(t)
}
