package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// outbox makes a table, a publication and a slot, all named alike, and returns an ordinary connection.
func outbox(t *testing.T, url, name string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{
		fmt.Sprintf("create table %s (id bigint generated always as identity, payload text)", name),
		fmt.Sprintf("create publication %s for table %s with (publish = 'insert')", name, name),
		fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput')", name),
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

func start(t *testing.T, cfg Config, name string) *Stream {
	t.Helper()
	conn, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := conn.Start(t.Context(), name, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Abort)
	return stream
}

// await reads until the wanted number of WAL messages of a kind has come, and returns them copied.
func await(t *testing.T, stream *Stream, kind byte, n int) []Frame {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	var frames []Frame
	for len(frames) < n {
		frame, ok, err := stream.Next(deadline)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			t.Fatalf("%d of %d messages %q came", len(frames), n, kind)
		}
		if !frame.Keepalive && frame.Data[0] == kind {
			frame.Data = append([]byte(nil), frame.Data...)
			frames = append(frames, frame)
		}
	}
	return frames
}

func TestStream(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		name := slotName(t)
		db := outbox(t, url, name)
		stream := start(t, Config{URL: url}, name)

		if _, err := db.Exec(t.Context(), fmt.Sprintf("insert into %s (payload) select 'event ' || i from generate_series(1, 1000) i", name)); err != nil {
			t.Fatal(err)
		}
		for i, frame := range await(t, stream, 'I', 1000) {
			if want := fmt.Sprintf("event %d", i+1); !strings.HasSuffix(string(frame.Data), want) {
				t.Fatalf("row %d does not end with %q", i, want)
			}
		}
		await(t, stream, 'C', 1)

		// a position that is told moves the slot, and it is taken before Close returns
		var current string
		if err := db.QueryRow(t.Context(), "select pg_current_wal_flush_lsn()::text").Scan(&current); err != nil {
			t.Fatal(err)
		}
		end, err := lsn.ParseEnd(current)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendStatus(end, false); err != nil {
			t.Fatal(err)
		}
		if err := stream.Close(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		var confirmed string
		err = db.QueryRow(t.Context(), "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = $1", name).Scan(&confirmed)
		if err != nil || confirmed != current {
			t.Errorf("the slot is at %s (%v), want %s", confirmed, err, current)
		}
	})
}

// slotName is a name for table, publication and slot that no other test of this server uses.
func slotName(t *testing.T) string {
	return strings.ToLower(strings.NewReplacer("/", "_", "#", "_").Replace(t.Name())) + fmt.Sprintf("_%x", time.Now().UnixNano())
}

func TestStreamSessionOverrulesTheRole(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	for _, setting := range []string{"client_encoding = 'latin1'", "timezone = 'Asia/Kathmandu'", "datestyle = 'German'", "intervalstyle = 'iso_8601'",
		"extra_float_digits = 0", "bytea_output = 'escape'", "client_min_messages = 'error'", "wal_sender_timeout = '4s'"} {
		pgtest.Exec(t, url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET "+strings.ReplaceAll(setting, "'", "''")+"', current_database()); END $$")
	}
	conn, err := Connect(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, want := range conn.cfg.session() {
		if name == "replication" {
			continue
		}
		results, err := conn.pg.Exec(t.Context(), "show "+name).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		got := string(results[0].Rows[0][0])
		if name == "wal_sender_timeout" {
			want = "1min"
		}
		if name == "DateStyle" {
			got, _, _ = strings.Cut(got, ",")
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestStreamKeepsOnlyTheHeadOfAnOversizeRow(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	name := slotName(t)
	db := outbox(t, url, name)
	stream := start(t, Config{URL: url, MaxEventBytes: 1 << 20}, name)
	for _, size := range []int{10, 5 << 20, 20} {
		if _, err := db.Exec(t.Context(), fmt.Sprintf("insert into %s (payload) values (repeat('x', %d))", name, size)); err != nil {
			t.Fatal(err)
		}
	}
	frames := await(t, stream, 'I', 3)
	if f := frames[1]; f.Size < 5<<20 || len(f.Data) >= f.Size || len(f.Data) > prefixBytes {
		t.Errorf("the large row has size %d, and %d bytes are kept", f.Size, len(f.Data))
	}
	if f := frames[2]; f.Size != len(f.Data) || !strings.HasSuffix(string(f.Data), strings.Repeat("x", 20)) {
		t.Errorf("the row behind it came as %d of %d bytes", len(f.Data), f.Size)
	}
}

func TestStreamWakesAndWaits(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	name := slotName(t)
	outbox(t, url, name)
	stream := start(t, Config{URL: url}, name)
	go stream.Wake()
	for {
		frame, ok, err := stream.Next(time.Time{}) // without the wake it would wait for ever
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		if !frame.Keepalive {
			t.Fatalf("got %q", frame.Data[0])
		}
	}
}

func TestStreamAnswersAPing(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	name := slotName(t)
	outbox(t, url, name)
	stream := start(t, Config{URL: url}, name)
	if err := stream.SendStatus(0, true); err != nil {
		t.Fatal(err)
	}
	frame, ok, err := stream.Next(time.Now().Add(10 * time.Second))
	if err != nil || !ok || !frame.Keepalive || frame.End == 0 {
		t.Errorf("got %+v, %v, %v; want a keepalive", frame, ok, err)
	}
}

func TestStreamErrors(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t, "")
	url := s.Database(t)
	name := slotName(t)
	db := outbox(t, url, name)

	t.Run("slot in use is a standby's wait", func(t *testing.T) {
		start(t, Config{URL: url}, name)
		conn, err := Connect(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Start(t.Context(), name, name)
		if Classify(err) != Standby {
			t.Errorf("got %v", err)
		}
	})
	t.Run("slot that is not there needs a person", func(t *testing.T) {
		conn, err := Connect(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = conn.Start(t.Context(), "nowhere", name); Classify(err) != Stop {
			t.Errorf("got %v", err)
		}
	})
	t.Run("server gone is worth another try", func(t *testing.T) {
		_, err := Connect(t.Context(), Config{URL: "postgres://127.0.0.1:1/x?connect_timeout=2"})
		if err == nil || Classify(err) != Unreachable {
			t.Errorf("got %v", err)
		}
	})
	t.Run("wrong database needs a person", func(t *testing.T) {
		_, err := Connect(t.Context(), Config{URL: s.URL("nowhere")})
		var refused *ConnectError
		if !errors.As(err, &refused) || refused.Remedy == "" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("URL that cannot be read needs a person and shows no password", func(t *testing.T) {
		_, err := Connect(t.Context(), Config{URL: "postgres://u:geheim@host:port/x"})
		if err == nil || Classify(err) != Stop || strings.Contains(err.Error(), "geheim") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("role without REPLICATION gets the statement", func(t *testing.T) {
		if _, err := db.Exec(t.Context(), fmt.Sprintf("create role %s login", name)); err != nil {
			t.Fatal(err)
		}
		config, err := pgconn.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Connect(t.Context(), Config{URL: fmt.Sprintf("postgres://%s@%s:%d/%s", name, "127.0.0.1", config.Port, config.Database)})
		if err == nil || !strings.Contains(err.Error(), "REPLICATION;") {
			t.Errorf("got %v", err)
		}
		if _, err := db.Exec(t.Context(), "drop role "+name); err != nil {
			t.Fatal(err)
		}
	})
}

// On 18 a missing publication is a warning and its rows are gone; before, it is an error. Either way the
// stream must end.
func TestStreamStopsWithoutPublication(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		name := slotName(t)
		db := outbox(t, url, name)
		stream := start(t, Config{URL: url}, name)
		for _, sql := range []string{"drop publication " + name, fmt.Sprintf("insert into %s (payload) values ('lost')", name)} {
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		deadline := time.Now().Add(20 * time.Second)
		for {
			_, ok, err := stream.Next(deadline)
			if err != nil {
				if Classify(err) != Stop || !strings.Contains(err.Error(), "walrelay repair") {
					t.Errorf("got %v", err)
				}
				return
			}
			if !ok {
				t.Fatal("the stream goes on without a publication")
			}
		}
	})
}
