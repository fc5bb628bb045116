package outbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/outbox"
	"github.com/walrelay/walrelay/router"
)

// The relay makes of a message what it makes of a row.
func TestMessages(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, "").Database(t)
	conn := connect(t, url)
	slot := "messages_" + conn.Config().Database
	pgtest.Exec(t, url, `CREATE PUBLICATION nothing`, `SELECT pg_create_logical_replication_slot('`+slot+`', 'pgoutput')`)
	ctx := outbox.WithTraceParent(t.Context(), trace)
	err := withSQL("postgres")(t, url, func(tx outbox.Tx) error {
		return outbox.Outbox{Prefix: "shop"}.Insert(ctx, tx,
			outbox.Event{ID: "e1", AggregateType: "order", AggregateID: "k1", Type: "T", Payload: map[string]string{"a": "<é>"}, Headers: map[string]string{"tenant": "t1"}},
			outbox.Event{ID: "e2", AggregateType: "order", AggregateID: "k2", Type: "T"})
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `SELECT data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL,
		'proto_version', '1', 'publication_names', 'nothing', 'messages', 'true')`, slot)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	route, err := router.BindEnvelope(router.Config{}, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	d := decoder.New()
	for rows.Next() {
		var frame []byte
		if err := rows.Scan(&frame); err != nil {
			t.Fatal(err)
		}
		if kind, err := d.Decode(frame); err != nil || kind != decoder.KindMessage {
			continue
		}
		var m router.Message
		if _, err := route.Route(d.Message.Content, lsn.Identity{}, &m); err != nil {
			t.Fatal(err)
		}
		line := string(d.Message.Prefix) + " " + m.Topic + " " + string(m.Key) + " " + string(m.Value)
		for _, h := range m.Headers {
			if h.Name != "walrelay.lsn" {
				line += " " + h.Name + "=" + string(h.Value)
			}
		}
		got = append(got, line)
	}
	want := []string{
		`shop outbox.event.order k1 {"a":"<é>"} id=e1 tenant=t1 traceparent=` + trace,
		`shop outbox.event.order k2  id=e2 traceparent=` + trace,
	}
	if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
		t.Errorf("%v (-want +got):\n%s", rows.Err(), diff)
	}
}
