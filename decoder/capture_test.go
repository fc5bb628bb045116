package decoder_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/walrelay/walrelay/internal/pgtest"
)

var capture = flag.Bool("capture", false, "stream the scenario from each version, rewrite testdata/*.frames")

func TestMain(m *testing.M) { pgtest.Main(m) }

// tables exist before the slot does.
var tables = []string{
	`CREATE TYPE mood AS ENUM ('sad', 'ok')`,
	`CREATE TABLE outbox (id bigint PRIMARY KEY, aggregatetype varchar(40) NOT NULL, aggregateid text, payload jsonb,
		raw bytea, mood mood, created_at timestamptz)`,
	`ALTER TABLE outbox ALTER raw SET STORAGE EXTERNAL`,
	`CREATE SCHEMA "Odd schema"`,
	`CREATE TABLE "Odd schema"."odd ""table""" ("Kéy" uuid, "a value" numeric(10,2))`,
	`ALTER TABLE "Odd schema"."odd ""table""" REPLICA IDENTITY FULL`,
	`CREATE TABLE events (id int, at date, body text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)`,
	`CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')`,
	`CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')`,
	`CREATE TABLE unpublished (id int)`,
	`CREATE PUBLICATION p FOR TABLE outbox, "Odd schema"."odd ""table""", events
		WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)`,
}

// scenario is what the slot decodes: every message type of protocol version 1. A string of several statements is
// one transaction.
var scenario = []string{
	`INSERT INTO outbox VALUES
		(1, 'order', 'A-1', '{"a": [1, "zwölf", null]}', '\x00ff10', 'ok', '2026-11-29 12:00:00.123456+00'),
		(2, '', NULL, NULL, NULL, NULL, NULL)`,
	`BEGIN; INSERT INTO outbox VALUES (3, 'order', 'A-1', '{}', '', 'sad', '2026-11-29 12:00:01+00');
		SAVEPOINT s; INSERT INTO outbox VALUES (4, 'rolled back'); ROLLBACK TO s;
		SELECT pg_logical_emit_message(true, 'outbox', 'between two rows');
		INSERT INTO outbox VALUES (5, 'order', 'A-2'); COMMIT`,
	`SELECT pg_logical_emit_message(true, 'outbox', '\x0001fe'::bytea)`,
	`SELECT pg_logical_emit_message(false, 'heartbeat', '')`,
	`BEGIN; INSERT INTO outbox VALUES (6, 'rolled back'); SELECT pg_logical_emit_message(false, 'loose', 'rolled back');
		SELECT pg_logical_emit_message(true, 'outbox', 'rolled back'); ROLLBACK`,
	`INSERT INTO unpublished VALUES (1)`,
	`INSERT INTO "Odd schema"."odd ""table""" VALUES ('0198f5a2-6c1e-7c3a-9c55-3f1f0a6f2b11', -12.50), (NULL, 'NaN')`,
	`UPDATE "Odd schema"."odd ""table""" SET "a value" = 1 WHERE "Kéy" IS NOT NULL`,
	`DELETE FROM "Odd schema"."odd ""table""" WHERE "Kéy" IS NULL`,
	`INSERT INTO events VALUES (1, '2026-01-15', 'first leaf'), (2, '2026-02-15', 'second leaf')`,
	`INSERT INTO outbox VALUES (7, 'large', NULL, NULL, decode(repeat('ab', 2500), 'hex'))`,
	`UPDATE outbox SET aggregateid = 'raw is unchanged' WHERE id = 7`,
	`UPDATE outbox SET id = 8 WHERE id = 7`,
	`ALTER TABLE outbox ADD COLUMN note text DEFAULT 'none'; INSERT INTO outbox (id, aggregatetype) VALUES (9, 'wider')`,
	`ALTER TABLE outbox RENAME COLUMN payload TO body; INSERT INTO outbox (id, aggregatetype) VALUES (10, 'renamed')`,
	`ALTER TABLE outbox DROP COLUMN raw; INSERT INTO outbox (id, aggregatetype) VALUES (11, 'narrower')`,
	`DELETE FROM outbox WHERE id = 8`,
	`TRUNCATE outbox, "Odd schema"."odd ""table""" RESTART IDENTITY CASCADE`,
	`SELECT pg_replication_origin_create('elsewhere')`,
	`SELECT pg_replication_origin_session_setup('elsewhere')`,
	`BEGIN; SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2026-11-29 12:00:00+00');
		INSERT INTO outbox (id, aggregatetype) VALUES (12, 'from elsewhere'); COMMIT`,
	`SELECT pg_replication_origin_session_reset()`,
	`SELECT pg_replication_origin_drop('elsewhere')`,
	`SELECT pg_logical_emit_message(true, 'end of scenario', '')`,
}

// TestCapture writes testdata/<version>.frames:
//
//	go test ./decoder -run TestCapture -capture && go test ./decoder -run TestGolden -update
func TestCapture(t *testing.T) {
	if !*capture {
		t.Skip("rewrites testdata/*.frames; needs -capture")
	}
	for _, version := range captured {
		server := pgtest.Shared(t, version)
		url := server.Database(t)
		pgtest.Exec(t, url, tables...)
		frames := stream(t, url, func() { pgtest.Exec(t, url, scenario...) })
		file := join(frames)
		if err := os.WriteFile(filepath.Join("testdata", version+".frames"), file, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("PostgreSQL %s: %d frames, %d bytes", server.Version(), len(frames), len(file))
	}
}

// stream returns the frames that a new slot decodes of what run does, up to the scenario's end.
func stream(t *testing.T, url string, run func()) [][]byte {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["replication"] = "database"
	config.RuntimeParams["timezone"] = "UTC"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	_, err = pglogrepl.CreateReplicationSlot(ctx, conn, "capture", "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: true})
	if err != nil {
		t.Fatal(err)
	}
	run()
	err = pglogrepl.StartReplication(ctx, conn, "capture", 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names 'p'", "messages 'true'"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for last := false; !last; {
		m, err := conn.ReceiveMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		data, ok := m.(*pgproto3.CopyData)
		if !ok || data.Data[0] != pglogrepl.XLogDataByteID {
			continue // keepalives
		}
		x, err := pglogrepl.ParseXLogData(data.Data[1:])
		if err != nil {
			t.Fatal(err)
		}
		frame := slices.Clone(x.WALData)
		last = frame[0] == 'C' && strings.Contains(string(frames[len(frames)-1]), "end of scenario")
		frames = append(frames, frame)
	}
	return frames
}
