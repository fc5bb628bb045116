package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
)

// incidents are what operators meet. Each is caused for real; then metric, alert, page, log, status and doctor must say the
// same, and the remedy that is printed must work when it is typed.
var incidents = []struct {
	name string
	play func(*testing.T, *theatre)
}{
	{"disk guard", diskGuard}, // first, since it waits for a minute
	{"Kafka down", kafkaDown},
	{"slot lost", slotLost},
	{"slot stolen", slotStolen},
	{"publication dropped", publicationDropped},
	{"table column renamed", columnRenamed},
	{"wrong password", wrongPassword},
	{"Postgres restart", postgresRestart},
	{"standby takeover", standbyTakeover},
	{"poison message", poisonMessage},
}

func TestIncidents(t *testing.T) {
	if os.Getenv("WALRELAY_INCIDENTS") != "1" {
		fmt.Fprintln(os.Stderr, "SKIPPED without WALRELAY_INCIDENTS=1, since it takes minutes: TestIncidents; run make incidents")
		t.Skip("WALRELAY_INCIDENTS is not 1")
	}
	th := openTheatre(t)
	var passed, failed atomic.Int32
	t.Run("incidents", func(t *testing.T) {
		for _, incident := range incidents {
			t.Run(incident.name, func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() {
					if t.Failed() || t.Skipped() {
						failed.Add(1)
					} else {
						passed.Add(1)
					}
				})
				incident.play(t, th)
			})
		}
	})
	th.browser.mu.Lock()
	defer th.browser.mu.Unlock()
	for _, complaint := range th.browser.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
	fmt.Printf("incidents: %d passed, %d failed\n", passed.Load(), failed.Load())
}

func kafkaDown(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Shared(t, ""))
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	s.kafka.Close()
	s.insert(5)
	s.tells(told{
		state: relay.Streaming, page: "kafka: unreachable", status: "kafka: unreachable; no broker answers: check that they run",
		metric: `walrelay_kafka_trouble{kind="unreachable"} 1`, alert: "WalrelayKafkaTrouble", log: "no kafka broker answers", doctor: "FAIL  kafka:",
	})
	s.startKafka() // "check that they run"
	s.well()
}

func slotLost(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_slot_wal_keep_size": "64MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}}))
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	s.kafka.Close()
	s.insert(5)
	s.writeLog(10)
	pgtest.Exec(t, s.url, `CHECKPOINT`)
	s.tells(told{
		state: relay.Stopped, page: "code slot-lost", status: "events may be missing; see which and restore them: walrelay repair",
		metric: `walrelay_slot_wal_status{status="lost"} 1`, alert: "WalrelaySlotLost", log: `"code":"slot-lost"`, doctor: "[slot-lost]",
	})
	s.startKafka()
	if said := s.typed("repair"); !strings.Contains(said, "repaired") {
		t.Fatalf("walrelay repair: %s", said)
	}
	s.well()
}

func slotStolen(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Shared(t, ""))
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	thief := steal(t, s.url)
	s.insert(5)
	s.tells(told{
		state: relay.Standby, page: "", status: "another process holds the slot",
		metric: `walrelay_state{state="standby"} 1`, alert: "WalrelayNobodyStreams", log: "relay is standby", doctor: "application thief",
	})
	remedy := regexp.MustCompile(`SELECT pg_terminate_backend\(\d+\);`).FindString(s.typed("doctor"))
	if remedy == "" {
		t.Fatal("doctor names no remedy")
	}
	pgtest.Exec(t, s.url, remedy)
	<-thief
	s.well()
}

// steal takes the slot of a database away from its relay, as some other program. The channel is closed when the thief has
// lost it.
func steal(t *testing.T, url string) <-chan struct{} {
	t.Helper()
	conn := connect(t, url)
	slot := ""
	if err := conn.QueryRow(t.Context(), `SELECT slot_name FROM pg_replication_slots WHERE database = current_database()`).Scan(&slot); err != nil {
		t.Fatal(err)
	}
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams = map[string]string{"replication": "database", "application_name": "thief", "wal_sender_timeout": "0"}
	thief, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the slot is the thief's", func() error {
		if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(active_pid, 1000) FROM pg_replication_slots WHERE slot_name = $1`, slot); err != nil {
			return err
		}
		return pglogrepl.StartReplication(t.Context(), thief, slot, 0, pglogrepl.StartReplicationOptions{
			PluginArgs: []string{"proto_version '1'", "publication_names '" + slot + "'"}})
	})
	lost := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		<-lost
	})
	go func() {
		defer close(lost)
		for {
			if _, err := thief.ReceiveMessage(ctx); err != nil {
				_ = thief.Close(context.Background())
				return
			}
		}
	}()
	return lost
}

func publicationDropped(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Shared(t, ""))
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	conn := connect(t, s.url)
	var publication string
	if err := conn.QueryRow(t.Context(), `SELECT pubname FROM pg_publication`).Scan(&publication); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, s.url, `DROP PUBLICATION `+publication)
	s.insert(5)
	s.tells(told{
		state: relay.Stopped, page: "code publication-missing", status: "see which and restore them: walrelay repair",
		metric: `walrelay_state{state="stopped"} 1`, alert: "WalrelayStopped", log: `"code":"publication-missing"`, doctor: "[publication-missing]",
	})
	if said := s.typed("repair"); !strings.Contains(said, "repaired") {
		t.Fatalf("walrelay repair: %s", said)
	}
	s.well()
}

func columnRenamed(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Shared(t, ""))
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	pgtest.Exec(t, s.url, `ALTER TABLE outbox RENAME payload TO body`)
	s.insert(5)
	s.tells(told{
		state: relay.Stopped, page: "code table-shape", status: "columns",
		metric: `walrelay_state{state="stopped"} 1`, alert: "WalrelayStopped", log: `"code":"table-shape"`, doctor: "[table-shape]",
	})
	file := filepath.Join(t.TempDir(), "walrelay.yaml")
	if err := os.WriteFile(file, []byte("tables: [{name: public.outbox, columns: {payload: body}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.relay.stop(t) // a mapping takes effect with a restart
	s.environ = append(s.environ, "WALRELAY_CONFIG="+file)
	s.relay = s.run()
	s.well()
}

func diskGuard(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Start(t, pgtest.Options{}))
	s.relay = s.run("WALRELAY_SLOT_WATCH_WARN_BYTES=1MiB", "WALRELAY_SLOT_WATCH_UNREADY_BYTES=32MiB")
	s.environ = append(s.environ, "WALRELAY_SLOT_WATCH_WARN_BYTES=1MiB", "WALRELAY_SLOT_WATCH_UNREADY_BYTES=32MiB")
	pin, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pin.Close(context.Background()) })
	if _, err := pin.Exec(t.Context(), `SET application_name = 'report'; BEGIN; SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	pid := pin.PgConn().PID()
	s.writeLog(4)
	s.insert(5)
	s.delivered()
	named := fmt.Sprintf("a long transaction keeps it: pid %d", pid)
	awaitWithin(t, 5*patience, time.Second, named, func() error {
		status, err := s.relay.status()
		if err == nil && (status.Server == nil || status.Ready || !strings.Contains(status.Server.Finding.Remedy, named)) {
			err = fmt.Errorf("%+v", status.Server)
		}
		return err
	})
	s.tells(told{
		state: relay.Streaming, page: named, status: fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid),
		metric: `walrelay_slot_watch{level="unready"} 1`, alert: "WalrelaySlotInDanger", log: "the slot is in danger", doctor: named,
	})
	statement := regexp.MustCompile(`SELECT pg_terminate_backend\(\d+\);`).FindString(s.typed("status", "--url", "http://"+s.relay.Pages()))
	pgtest.Exec(t, s.url, statement, `CHECKPOINT`)
	awaitWithin(t, 3*patience, time.Second, "the slot lets go", func() error {
		s.insert(1) // the slot's restart_lsn moves when something is confirmed
		status, err := s.relay.status()
		if err == nil && status.Server.Finding.Level == relay.SlotUnready {
			err = fmt.Errorf("%+v", status.Server)
		}
		return err
	})
	s.relay.awaitLine(t, "the slot is out of danger")
	s.well()
}

func wrongPassword(t *testing.T, th *theatre) {
	server := pgtest.Start(t, pgtest.Options{})
	s := th.set(t, server)
	rules := filepath.Join(server.Dir(), "pg_hba.conf")
	before, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rules, append([]byte("host all locked all scram-sha-256\n"), before...), 0o600); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, s.url, `CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'another one'`, `SELECT pg_reload_conf()`)
	theirs := strings.Replace(s.url, "postgres://postgres@", "postgres://locked:the-word@", 1)
	s.environ[0] = "WALRELAY_POSTGRES_URL=" + theirs
	s.relay = launch(t, s.environ, "run")
	s.relay.findPages(t)
	s.tells(told{
		state: relay.Stopped, page: "code postgres-refused", status: "check user, password and database",
		metric: `walrelay_state{state="stopped"} 1`, alert: "WalrelayStopped", log: `"code":"postgres-refused"`, doctor: "[postgres-refused]",
	})
	if strings.Contains(s.relay.Said(), "the-word") {
		t.Error("the log has the password")
	}
	pgtest.Exec(t, s.url, `ALTER ROLE locked PASSWORD 'the-word'`)
	awaitWithin(t, 2*patience, 100*time.Millisecond, "ready", func() error {
		status, err := s.relay.status()
		if err == nil && !status.Ready {
			err = fmt.Errorf("%s", status.Unready)
		}
		return err
	})
	s.well()
}

func postgresRestart(t *testing.T, th *theatre) {
	server := pgtest.Start(t, pgtest.Options{})
	s := th.set(t, server)
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	if err := server.Stop(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	s.tells(told{
		state: relay.Starting, page: "check that Postgres runs there", status: "check that Postgres runs there",
		metric: `walrelay_state{state="starting"} 1`, alert: "WalrelayNobodyStreams", log: "trying again", doctor: "FAIL  postgres:",
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.well()
}

func standbyTakeover(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Shared(t, ""))
	first := s.run()
	s.relay = s.run()
	s.awaitState(relay.Standby)
	s.insert(10)
	s.delivered()
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.insert(5)
	s.tells(told{
		state: relay.Streaming, page: "", status: "streamed from",
		metric: `walrelay_state{state="streaming"} 1`, alert: "", log: "relay is streaming", doctor: "held by process",
	})
	s.well()
}

func poisonMessage(t *testing.T, th *theatre) {
	s := th.set(t, pgtest.Shared(t, ""))
	s.relay = s.run()
	s.insert(10)
	s.delivered()
	pgtest.Exec(t, s.url, `INSERT INTO outbox VALUES (gen_random_uuid(), 'no such topic', 'k', 'Created', '{}')`)
	s.insert(5)
	s.tells(told{
		state: relay.Halted, page: "walrelay skip", status: "to leave it out: walrelay skip",
		metric: `walrelay_state{state="halted"} 1`, alert: "WalrelayHalted", log: "relay is halted", doctor: "held by process",
	})
	command := regexp.MustCompile(`walrelay skip (\S+) --reason`).FindStringSubmatch(s.typed("status", "--url", "http://"+s.relay.Pages()))
	if command == nil {
		t.Fatal("the status names no command")
	}
	if said := s.typed("skip", command[1], "--reason", "no such topic is wanted"); said != "skipped\n" {
		t.Fatalf("walrelay skip: %s", said)
	}
	s.well()
}
