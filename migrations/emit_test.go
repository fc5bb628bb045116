package migrations_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// What walrelay.emit writes into the log is the envelope, in the transaction, under the prefix; what can never be an event
// fails at once, in the application.
func TestEmit(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		conn := connect(t, url)
		apply(t, url)
		slot := "emit_" + strings.ToLower(conn.Config().Database)
		pgtest.Exec(t, url, `CREATE PUBLICATION nothing`, `SELECT pg_create_logical_replication_slot('`+slot+`', 'pgoutput')`)

		var drawn, given string
		if err := conn.QueryRow(t.Context(), `SELECT walrelay.emit('Order', 'k-1', 'Created', '{"a": "é"}')`).Scan(&drawn); err != nil {
			t.Fatal(err)
		}
		err := conn.QueryRow(t.Context(), `SELECT walrelay.emit(prefix => 'mine', headers => '{"tenant": "t1"}', aggregatetype => 'Order',
			aggregateid => NULL, type => NULL, payload => NULL, id => '0f8fad5b-d9cb-469f-a165-70867728950e')`).Scan(&given)
		if err != nil {
			t.Fatal(err)
		}
		for _, refused := range []string{
			`SELECT walrelay.emit(NULL, 'k', 't', '{}')`, `SELECT walrelay.emit('o', 'k', 't', '{}', id => NULL)`,
			`SELECT walrelay.emit('o', 'k', 't', '{}', prefix => NULL)`, `SELECT walrelay.emit('o', 'k', 't', '{}', headers => '[]')`,
		} {
			if _, err := conn.Exec(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "walrelay.emit: ") {
				t.Errorf("%s: %v", refused, err)
			}
		}
		type emitted struct{ Prefix, ID, AggregateType, AggregateID, Type, Payload, Headers string }
		want := []emitted{
			{"walrelay", drawn, `"Order"`, `"k-1"`, `"Created"`, `{"a": "é"}`, "null"},
			{"mine", given, `"Order"`, "null", "null", "null", `{"tenant": "t1"}`},
		}
		var got []emitted
		rows, err := conn.Query(t.Context(), `SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL,
			'proto_version', '1', 'publication_names', 'nothing', 'messages', 'true')`, slot)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		d := decoder.New()
		for rows.Next() {
			var frame []byte
			if err := rows.Scan(&frame); err != nil {
				t.Fatal(err)
			}
			kind, err := d.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			if kind != decoder.KindMessage {
				continue
			}
			var m struct {
				ID                                                 string
				AggregateType, AggregateID, Type, Payload, Headers json.RawMessage
			}
			if err := json.Unmarshal(d.Message.Content, &m); err != nil || !d.Message.Transactional {
				t.Fatalf("%s: %v, transactional %v", d.Message.Content, err, d.Message.Transactional)
			}
			got = append(got, emitted{string(d.Message.Prefix), m.ID, string(m.AggregateType), string(m.AggregateID), string(m.Type),
				string(m.Payload), string(m.Headers)})
		}
		if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
			t.Errorf("%v (-want +got):\n%s", rows.Err(), diff)
		}
	})
}
