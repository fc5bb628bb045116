package router

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ts(name string, value any) col {
	return col{name: name, oid: oidTimestamptz, modifier: -1, value: value}
}

// The table of most courses.
func courseTable() []col {
	return []col{
		uuid("id", testID), text("aggregate_type", "Order"), text("aggregate_id", "k-1"), text("event_type", "OrderCreated"),
		jsonb("payload", `{"a": 1}`), ts("created_at", "2026-01-01 00:00:00+00"), ts("published_at", nil),
	}
}

// outbox_events of omni-box (docs/migrations.md there).
func omniBoxTable() []col {
	return []col{
		uuid("id", testID), text("event_type", "OrderCreated"), text("aggregate_type", "Order"),
		{name: "aggregate_id", oid: oidUUID, modifier: -1, value: testID}, text("topic", "orders.v1"), text("partition_key", "k-1"),
		jsonb("payload", `{"a": 1}`), jsonb("headers", `{"tenant": "t1"}`), text("trace_id", "abc"), text("idempotency_key", nil),
		text("correlation_id", nil), text("causation_id", nil), text("schema_version", "2"), text("status", "pending"),
		ts("scheduled_at", "2036-01-01 00:00:00+00"), ts("created_at", "2026-01-01 00:00:00+00"),
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		preset  string
		columns []col
		want    record
	}{
		{"", outbox(jsonb("", `{"a": 1}`)), record{"outbox.event.Order", "k-1", `{"a": 1}`, []string{idHeader, positionHeader}, -1, commitMillis}},
		{PresetDebezium, outbox(jsonb("", `{"a": 1}`)), record{"outbox.event.Order", "k-1", `{"a": 1}`, []string{idHeader, positionHeader}, -1, commitMillis}},
		{"", courseTable(), record{"outbox.event.Order", "k-1", `{"a": 1}`, []string{idHeader, positionHeader}, -1, commitMillis}},
		{PresetSnake, courseTable(), record{"outbox.event.Order", "k-1", `{"a": 1}`, []string{idHeader, positionHeader}, -1, commitMillis}},
		{PresetSnakePolling, courseTable(), record{"OrderCreated", "k-1", `{"a": 1}`, []string{"event_id=" + testID, positionHeader}, -1, commitMillis}},
		{PresetOmniBox, omniBoxTable(), record{"orders.v1", "k-1", `{"a": 1}`,
			[]string{"event_id=" + testID, "event_type=OrderCreated", "schema_version=2", "trace_id=abc", "tenant=t1", positionHeader}, -1, commitMillis}},
	} {
		if diff := cmp.Diff(c.want, recordOf(published(t, Config{Preset: c.preset}, c.columns))); diff != "" {
			t.Errorf("preset %q: %s", c.preset, diff)
		}
	}
}

// What is set beside a preset counts more than the preset.
func TestPresetIsOverridden(t *testing.T) {
	t.Parallel()
	c := Config{Preset: PresetOmniBox, Columns: Columns{Key: "aggregate_id"}, Placements: []string{"status:header"}, Headers: Headers{ID: "id"}}
	want := record{"orders.v1", testID, `{"a": 1}`, []string{idHeader, "status=pending", "tenant=t1", positionHeader}, -1, commitMillis}
	if diff := cmp.Diff(want, recordOf(published(t, c, omniBoxTable()))); diff != "" {
		t.Error(diff)
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for columns, want := range map[string]string{
		"id aggregatetype aggregateid type payload":           PresetDebezium,
		"payload aggregateid x aggregatetype id":              PresetDebezium,
		"id aggregate_type aggregate_id event_type payload":   PresetSnake,
		"id aggregate_type aggregate_id payload created_at":   PresetSnake,
		"id aggregatetype aggregateid aggregate_type payload": PresetDebezium,
		"":           "none",
		"id payload": "none",
		"id aggregate_type aggregate_id event_type body": "none",
		"ID AggregateType AggregateId Payload":           "none",
	} {
		got, ok := Detect(strings.Fields(columns))
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", columns, got, want)
		}
	}
}

// A snake-case table with one column of another name needs only that one to be named.
func TestDetectionFillsTheRest(t *testing.T) {
	t.Parallel()
	columns := courseTable()
	columns[4].name = "body"
	if m := published(t, Config{Columns: Columns{Payload: "body"}}, columns); m.Topic != "outbox.event.Order" || string(m.Key) != "k-1" {
		t.Errorf("%+v", recordOf(m))
	}
	if _, err := Bind(Config{}, relationOf(columns), Catalog{}); err == nil || !strings.Contains(err.Error(), `no column "payload"`) {
		t.Errorf("error %v", err)
	}
}
