package doctor

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

const outboxSQL = `CREATE TABLE outbox (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb)`

// settings are those of walrelay for a database and a broker that need nothing else.
func settings(t *testing.T, url string, brokers ...string) relay.Config {
	t.Helper()
	c, err := config.Load(config.Sources{Environ: []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Relay()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// examined are the findings, by check.
func examined(t *testing.T, cfg relay.Config) map[string]Finding {
	t.Helper()
	found := map[string]Finding{}
	failed, err := Examine(t.Context(), cfg, Options{}, func(f Finding) {
		if before, twice := found[f.Check]; !twice || before.Level == OK {
			found[f.Check] = f
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	any := false
	for _, f := range found {
		any = any || f.Level == Fail
	}
	if failed != any {
		t.Errorf("failed is %v: %v", failed, found)
	}
	return found
}

func want(t *testing.T, found map[string]Finding, check string, level Level, text, remedy string) {
	t.Helper()
	f := found[check]
	if f.Level != level || !strings.Contains(f.Text, text) || !strings.Contains(f.Remedy, remedy) {
		t.Errorf("%s: %+v, want %s with %q and the remedy %q", check, f, level, text, remedy)
	}
}

// eventually waits until a check has the level; the caller looks whether it has.
func eventually(t *testing.T, cfg relay.Config, check string, level Level) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for ; examined(t, cfg)[check].Level != level && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
	}
}

// A role with the grants of the script and nothing else is all that a relay needs, and each one that is taken away is missed.
func TestLeastPrivilege(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		admin := s.Database(t)
		brokers := kafkatest.Fake(t).ListenAddrs()
		pgtest.Exec(t, admin, outboxSQL)
		role := "relay_" + strings.ToLower(rand.Text()[:12])
		pgtest.Exec(t, admin, "CREATE ROLE "+role+" LOGIN REPLICATION")
		t.Cleanup(func() { pgtest.Exec(t, admin, "DROP OWNED BY "+role, "DROP ROLE "+role) })
		slot := "s_" + role
		script, err := replication.Script{Slot: slot, Publication: slot, Role: role}.SQL()
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, admin, script)
		cfg := settings(t, as(t, admin, role), brokers...)
		cfg.Postgres.Slot, cfg.Postgres.Publication = slot, slot

		found := examined(t, cfg)
		for check, f := range found {
			if f.Level == Fail {
				t.Errorf("%s: %+v", check, f)
			}
		}
		want(t, found, "role", OK, "may replicate", "")
		want(t, found, "statistics", Info, "does not see", "GRANT pg_read_all_stats TO \""+role+"\";")
		want(t, found, "publication", OK, slot, "")
		want(t, found, "holder", Warn, "nobody streams", "walrelay run")

		for _, take := range []struct{ revoke, give string }{
			{"REVOKE UPDATE ON walrelay.checkpoint FROM " + role, "GRANT SELECT, UPDATE ON walrelay.checkpoint TO " + role + ";"},
			{"REVOKE SELECT ON walrelay.schema_version FROM " + role, "GRANT SELECT ON walrelay.schema_version TO " + role + ";"},
			{"REVOKE INSERT ON walrelay.request FROM " + role, "GRANT SELECT, INSERT, UPDATE ON walrelay.request TO " + role + ";"},
			{"REVOKE USAGE ON SCHEMA walrelay FROM " + role, "GRANT USAGE ON SCHEMA walrelay TO " + role + ";"},
		} {
			pgtest.Exec(t, admin, take.revoke)
			f := examined(t, cfg)["grants"]
			if f.Level != Fail || f.Remedy != take.give {
				t.Errorf("after %s: %+v, want the remedy %s", take.revoke, f, take.give)
			}
			pgtest.Exec(t, admin, f.Remedy) // as it is printed
		}
		pgtest.Exec(t, admin, "ALTER ROLE "+role+" NOREPLICATION")
		f := examined(t, cfg)["role"]
		want(t, map[string]Finding{"role": f}, "role", Fail, "may not replicate", "ALTER ROLE \""+role+"\" REPLICATION;")
		pgtest.Exec(t, admin, f.Remedy)
		if f := examined(t, cfg)["role"]; f.Level != OK {
			t.Errorf("after the remedy: %+v", f)
		}
	})
}

// as is the URL for another role.
func as(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// A server that is not set up for it: every finding is told with its setting, in the words of the service.
func TestServices(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_level": "replica"}})
	admin := s.Database(t)
	pgtest.Exec(t, admin, outboxSQL, `ALTER ROLE postgres SET synchronous_commit = local`, `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
	cfg := settings(t, admin, "127.0.0.1:1")
	eventually(t, cfg, "synchronous", Fail)
	found := examined(t, cfg)
	want(t, found, "wal_level", Fail, "wal_level is replica", "ALTER SYSTEM SET wal_level = logical; then restart Postgres")
	want(t, found, "synchronous", Fail, `"*"`, "ALTER SYSTEM SET synchronous_standby_names")
	want(t, found, "kafka", Fail, "127.0.0.1:1", "advertised.listeners")

	for role, remedy := range map[string]string{
		"rds_superuser": "rds.logical_replication = 1", "cloudsqlsuperuser": "cloudsql.logical_decoding=on", "azure_pg_admin": "az postgres flexible-server parameter set --name wal_level",
		"supabase_admin": "is this the right server", "neon_superuser": "Logical Replication", "streaming_replica": "spec.postgresql.parameters",
	} {
		pgtest.Exec(t, admin, "CREATE ROLE "+role)
		found := examined(t, cfg)
		want(t, found, "wal_level", Fail, "wal_level is replica", remedy)
		if !strings.Contains(found["postgres"].Text, " on ") || strings.Contains(found["postgres"].Text, "one's own") {
			t.Errorf("%s: %+v", role, found["postgres"])
		}
		pgtest.Exec(t, admin, "DROP ROLE "+role)
	}
}

// What an application does that will surprise it, and what somebody broke, is found.
func TestFindings(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t, "")
	admin := s.Database(t)
	brokers := kafkatest.Fake(t).ListenAddrs()
	cfg := settings(t, admin, brokers...)
	want(t, examined(t, cfg), "table", Fail, "public.outbox does not exist", "walrelay init creates it")

	pgtest.Exec(t, admin, `CREATE TABLE events (id uuid, aggregatetype text, aggregateid text, type text, payload text)`)
	want(t, examined(t, cfg), "table", Fail, "public.outbox does not exist", "public.events")
	pgtest.Exec(t, admin, `ALTER TABLE events RENAME TO outbox; ALTER TABLE outbox RENAME payload TO body`)
	want(t, examined(t, cfg), "table", Fail, "does not fit its mapping", "tables: columns")
	pgtest.Exec(t, admin, `ALTER TABLE outbox RENAME body TO payload`)

	prepared, err := replication.Setup(t.Context(), cfg.Postgres, replication.SetupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, admin, `INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', 't', '{}'); UPDATE outbox SET type = 'u'; SELECT pg_stat_force_next_flush()`)
	eventually(t, cfg, "updates", Info)
	want(t, examined(t, cfg), "updates", Info, "publishes nothing", "insert a row")
	want(t, examined(t, cfg), "retained", Warn, "nothing bounds that", "max_slot_wal_keep_size")

	pgtest.Exec(t, admin, `ALTER PUBLICATION `+prepared.Publication+` DROP TABLE outbox`)
	f := examined(t, cfg)["slot"]
	want(t, map[string]Finding{"slot": f}, "slot", Fail, "does not have table public.outbox", "ALTER PUBLICATION")
	statement, _, _ := strings.Cut(f.Remedy, ";")
	pgtest.Exec(t, admin, statement)
	want(t, examined(t, cfg), "publication", OK, "", "")
	pgtest.Exec(t, admin, `SELECT pg_drop_replication_slot('`+prepared.Slot+`')`)
	want(t, examined(t, cfg), "slot", Fail, "does not exist any more", "walrelay repair")
}

// A pooler answers with a process number of its own.
func TestPooler(t *testing.T) {
	t.Parallel()
	admin := pgtest.Shared(t, "").Database(t)
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = pooler(t, u.Host)
	found := examined(t, settings(t, u.String(), kafkatest.Fake(t).ListenAddrs()...))
	want(t, found, "pooler", Fail, "is a connection pooler", "the address of Postgres itself")
}

// pooler passes connections on to a server, and changes the process number in its BackendKeyData, as PgBouncer does.
func pooler(t *testing.T, server string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			passOn(ctx, client, server)
		}
	}()
	return listener.Addr().String()
}

// passOn serves one client at a time.
func passOn(ctx context.Context, client net.Conn, server string) {
	defer client.Close()
	back, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer back.Close()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), back.Close() })()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(back, client)
		_ = back.Close()
	}()
	buffer := make([]byte, 64<<10)
	for first := true; ; {
		n, err := back.Read(buffer)
		if at := strings.Index(string(buffer[:n]), "K\x00\x00\x00\x0c"); first && at >= 0 {
			buffer[at+8] ^= 0x55 // of the process number
			first = false
		}
		if _, writing := client.Write(buffer[:n]); err != nil || writing != nil {
			break
		}
	}
	_ = client.Close()
	<-ended
}

// Each state of a topic has its words, and only topics that events may go to are looked at.
func TestTopics(t *testing.T) {
	t.Parallel()
	var e examination
	e.cfg.Kafka.Brokers = []string{"b:9092"}
	found := map[string]Finding{}
	e.report = func(f Finding) { found[f.Check] = f }
	e.cfg.Tables = []relay.Table{{Name: "public.outbox"}}
	for _, topic := range topics {
		e.topic(topic.topic, 3)
		want(t, found, "topic t", topic.level, topic.text, topic.remedy)
	}
	if !e.cfg.MayGoTo("outbox.event.order") || e.cfg.MayGoTo("other") {
		t.Errorf("topics: %v", e.cfg.TopicPatterns())
	}
}
