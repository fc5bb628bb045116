package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/walrelay/walrelay/internal/faultconn"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// withMessages is a configuration with a table and messages.
func (w *world) withMessages() Config {
	cfg := w.config()
	cfg.Tables = []Table{{Name: "public.outbox"}}
	cfg.Messages = &Messages{Prefix: "walrelay", Topics: []string{"outbox.event.*"}, DeadLetterTopic: "dead"}
	return cfg
}

// emit is the SQL of a message with the next number.
func (w *world) emit(transactional bool, prefix string) string {
	n := w.next
	w.next++
	return fmt.Sprintf(`select pg_logical_emit_message(%v, '%s', '{"id": "%d", "aggregatetype": "order", "aggregateid": "k%d", "payload": {"n": %d}}');`,
		transactional, prefix, n, n%7, n)
}

// rowSQL is the SQL of a row with the next number.
func (w *world) rowSQL() string {
	n := w.next
	w.next++
	return fmt.Sprintf(`insert into outbox values (%d, 'order', 'k%d', 'Created', '{"n": %d}');`, n, n%7, n)
}

// undone is SQL whose events are rolled back; their numbers are used again.
func (w *world) undone() string {
	n := w.next
	sql := w.rowSQL() + w.emit(true, "walrelay")
	w.next = n
	return sql
}

// Rows and messages of one topic and key stand in commit order, each once, whatever happens to the connection; what is
// rolled back, in no transaction, or under another prefix is no event.
func TestMessagesAmongRows(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		cfg := w.withMessages()
		var dialer faultconn.Dialer
		cfg.Postgres.Dial = dialer.DialContext
		r := w.start(cfg)
		r.state(Streaming)
		stray := func(transactional bool, prefix string) string {
			sql := w.emit(transactional, prefix)
			w.next--
			return sql
		}
		for i := range 40 {
			w.exec(w.emit(true, "walrelay"))
			w.exec("begin; " + w.rowSQL() + w.emit(true, "walrelay") + stray(true, "other") + w.rowSQL() + w.emit(true, "walrelay") + "commit")
			w.exec("begin; " + w.undone() + "rollback")
			w.exec("begin; " + w.emit(true, "walrelay") + "savepoint s; " + w.undone() + "rollback to s; " + stray(false, "walrelay") + w.rowSQL() + "commit")
			w.exec(stray(false, "walrelay") + stray(false, "other") + stray(true, "other"))
			if i%8 == 0 {
				dialer.Cut()
			}
		}
		sql := "begin; "
		for range 3000 {
			sql += w.emit(true, "walrelay") + w.rowSQL()
		}
		w.exec(sql + "commit")
		dialer.Cut()
		w.exec(w.rowSQL())
		records := w.delivered()
		if len(records) != w.next {
			t.Errorf("%d records of %d events", len(records), w.next)
		}
		for _, record := range records {
			if want := fmt.Sprintf(`{"n": %s}`, header(record, "id")); string(record.Value) != want || record.Topic != "outbox.event.order" {
				t.Errorf("%s: %s, want %s", record.Topic, record.Value, want)
			}
		}
		eventually(t, "the last ones are saved", func() bool {
			_, saved := w.row()
			return r.Status().InFlight == 0 && w.slotPosition() == saved
		})
		if n := testutil.ToFloat64(r.metrics.ignored); n < 80 {
			t.Errorf("%v messages in no transaction were counted, want at least 80", n)
		}
		if n := testutil.ToFloat64(r.metrics.events.WithLabelValues(messagesLabel)); n < 3160 {
			t.Errorf("%v events of messages were counted, want at least 3160", n)
		}
	})
}

// An outbox of messages alone needs no table, and walrelay.emit writes them. An unclean stop repeats nothing.
func TestMessagesAlone(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		w.exec("drop table outbox")
		cfg := w.withMessages()
		cfg.Tables = nil
		r := w.start(cfg)
		r.state(Streaming)
		other, err := pgx.Connect(t.Context(), w.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeConn(other) })
		var ids []string
		emit := func(db *pgx.Conn) {
			t.Helper()
			var id string
			err := db.QueryRow(t.Context(), `select walrelay.emit('order', 'k', 'Created', $1::text::jsonb, headers => '{"tenant": "t1"}')`,
				fmt.Sprintf(`{"n": %d}`, len(ids))).Scan(&id)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		arrived := func() (records []kafkatest.Record) {
			t.Helper()
			eventually(t, fmt.Sprintf("%d records", len(ids)), func() bool { records = w.records(); return len(records) >= len(ids) })
			return records
		}
		for range 3 { // with a row that cannot be saved
			emit(w.db)
			arrived()
			tx, err := w.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "select from walrelay.checkpoint for update"); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				emit(other)
			}
			arrived()
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			r = w.start(cfg)
			r.state(Streaming)
		}
		emit(w.db)
		records := arrived()
		var got []string
		for i, record := range records {
			got = append(got, header(record, "id"))
			if want := fmt.Sprintf(`{"n": %d}`, i); string(record.Key) != "k" || string(record.Value) != want || header(record, "tenant") != "t1" {
				t.Errorf("record %d: key %s, value %s, want %s", i, record.Key, record.Value, want)
			}
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("ids of walrelay.emit and of the records: %s", diff)
		}
	})
}

// Whatever somebody writes under the prefix, the relay goes on, and keeps it for a person.
func TestMessagesThatCannotBePublished(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		w := newWorld(t, s)
		cfg := w.withMessages()
		cfg.Postgres.MaxEventBytes = 100_000
		cfg.Kafka.MaxRecordBytes = 50_000
		r := w.start(cfg)
		r.state(Streaming)
		for _, content := range []string{
			`'not json'`, `''`, `'{"id": "1", "aggregatetype": "order"}'`, `'\xff00'::bytea`, `repeat('x', 200000)`,
			`'{"id": "1", "aggregatetype": "a b", "aggregateid": "k", "payload": 1}'`,
			`'{"id": "1", "aggregatetype": "order", "aggregateid": "k", "payload": "' || repeat('x', 60000) || '"}'`,
			`'{"id": "1", "aggregatetype": "order", "aggregateid": "' || repeat('k', 60000) || '", "payload": 1, "headers": {"h": "' || repeat('x', 30000) || '"}}'`,
		} {
			w.exec(`select pg_logical_emit_message(true, 'walrelay', ` + content + `)`)
		}
		w.exec(`select pg_logical_emit_message(false, 'walrelay', repeat('x', 200000))`)
		w.exec(`insert into outbox values (99, 'order', 'k', 't', '{}')`)
		var records []kafkatest.Record
		eventually(t, "9 records", func() bool { records = w.records(); return len(records) == 9 })
		var got []string
		for _, record := range records {
			if record.Topic == "outbox.event.order" && header(record, "id") == "99" {
				continue
			}
			reason, _, _ := strings.Cut(header(record, "walrelay.error"), ":")
			got = append(got, fmt.Sprintf("%s under %s, %s, key %d, value %d, size %s", record.Topic, header(record, "walrelay.prefix"),
				reason, len(record.Key), len(record.Value), header(record, "walrelay.size")))
			if _, err := lsn.ParseIdentity(header(record, "walrelay.lsn")); err != nil {
				t.Errorf("%v: %v", record.Headers, err)
			}
		}
		want := []string{
			"dead under walrelay, column aggregatetype, key 1, value 69, size ",
			"dead under walrelay, it has 200023 bytes on the wire, more than postgres.max_event_bytes, key 0, value 0, size ",
			"dead under walrelay, message envelope, key 0, value 0, size ",
			"dead under walrelay, message envelope, key 0, value 2, size ",
			"dead under walrelay, message envelope, key 0, value 37, size ",
			"dead under walrelay, message envelope, key 0, value 8, size ",
			`dead under walrelay, record for topic "outbox.event.order", key 0, value 0, size 1`,
			`dead under walrelay, record for topic "outbox.event.order", key 1, value 0, size 60002`,
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if status := r.Status(); status.State != Streaming {
			t.Errorf("%+v", status)
		}
	})
}
