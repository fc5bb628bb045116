package router

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func bindEnvelope(t testing.TB, c Config, topics ...string) *EnvelopeRoute {
	t.Helper()
	e, err := BindEnvelope(c, topics)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const testEnvelope = `{"id": "` + testID + `", "aggregatetype": "Order", "aggregateid": "k-1", "type": "Created", "payload": {"a": [1, "\u00e9"]}, "more": {"payload": 2}}`

// A message is routed as a row with the same values is.
func TestEnvelopeAsARow(t *testing.T) {
	t.Parallel()
	c := Config{Placements: []string{"type:header:eventType,tenant:header,p:partition"}}
	e := bindEnvelope(t, c, "outbox.event.*")
	var m Message
	content := strings.TrimSuffix(testEnvelope, "}") + `, "tenant": 7, "p": 3, "headers": {"x": "y"}, "traceparent": "00-1"}`
	if _, err := e.Route([]byte(content), testIdentity, &m); err != nil {
		t.Fatal(err)
	}
	want := record{"outbox.event.Order", "k-1", `{"a": [1, "\u00e9"]}`,
		[]string{idHeader, "eventType=Created", "tenant=7", "x=y", "traceparent=00-1", positionHeader}, 3, commitMillis}
	if diff := cmp.Diff(want, recordOf(&m)); diff != "" {
		t.Error(diff)
	}
	if _, err := e.Route([]byte(testEnvelope), testIdentity, &m); err != nil { // nothing of the one before remains
		t.Fatal(err)
	}
	want.Headers, want.Partition = []string{idHeader, "eventType=Created", "tenant=NULL", positionHeader}, -1
	if diff := cmp.Diff(want, recordOf(&m)); diff != "" {
		t.Error(diff)
	}
}

func TestEnvelopeValues(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		"null": "NULL", `"text"`: `"text"`, "1.50": "1.50", "[ ]": "[ ]", `{"a": null}`: `{"a": null}`,
	} {
		e := bindEnvelope(t, Config{}, "*")
		var m Message
		if _, err := e.Route([]byte(`{"id": "1", "aggregatetype": "o", "payload": `+payload+`}`), testIdentity, &m); err != nil {
			t.Fatal(err)
		}
		if got := printable(m.Value); got != want || m.Key != nil {
			t.Errorf("payload %s: value %s, key %q", payload, got, m.Key)
		}
	}
}

func TestMalformedEnvelopeIsPoison(t *testing.T) {
	t.Parallel()
	e := bindEnvelope(t, Config{Columns: Columns{Timestamp: "at"}, Placements: []string{"p:partition"}}, "outbox.event.Order", "audit.*")
	const start = `{"id": "1", "aggregatetype": "Order", `
	for content, reason := range map[string]string{
		"": "one valid JSON object", "[]": "one valid JSON object", `"x"`: "one valid JSON object", "{": "one valid JSON object",
		start + `"payload": 1} x`: "one valid JSON object", start + "\"payload\": \"\xff\"}": "in UTF-8",
		start + `"x": 1}`:                                      `no member "payload"`,
		`{"aggregatetype": "Order", "payload": 1}`:             `no member "id"`,
		`{"id": null, "aggregatetype": "Order", "payload": 1}`: `no member "id"`,
		`{"id": "1", "payload": 1}`:                            "aggregatetype is NULL",
		start + `"payload": 1, "id": "2"}`:                     `member "id" is there twice`,
		start + `"payload": 1, "\u0069d": "2"}`:                `member "id" is there twice`,
		start + `"payload": 1, "headers": []}`:                 "is not a JSON object",
		start + `"payload": 1, "p": "x"}`:                      "is not a number from 0",
		start + `"payload": 1, "at": "x"}`:                     "is not a time",
		`{"id": "1", "aggregatetype": "User", "payload": 1}`:   "not in the list of topics",
		`{"id": "1", "aggregatetype": "a b", "payload": 1}`:    "illegal topic name",
	} {
		var m Message
		_, err := e.Route([]byte(content), testIdentity, &m)
		if _, isPoison := err.(*PoisonError); !isPoison || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: error %v, want poison with %q", content, err, reason)
		}
		if m.Time != commitMillis || m.Identity != testIdentity {
			t.Errorf("%q: a dead letter of %d, %v", content, m.Time, m.Identity)
		}
	}
}

func TestBindEnvelopeWantsTopics(t *testing.T) {
	t.Parallel()
	_, err := BindEnvelope(Config{Route: Routing{Regex: "("}}, nil)
	for _, want := range []string{"any role may emit", "route.regex"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestEnvelopeDoesNotAllocate(t *testing.T) {
	e := bindEnvelope(t, Config{}, "outbox.event.*")
	content := []byte(testEnvelope)
	var m Message
	if n := testing.AllocsPerRun(100, func() { _, _ = e.Route(content, testIdentity, &m) }); n != 0 {
		t.Errorf("%v allocations for a message, want none", n)
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(testEnvelope))
	f.Add([]byte(`{"id":"\ud83d","payload":{},"headers":{"a":"\`))
	e := bindEnvelope(f, Config{Placements: []string{"t:header,p:partition"}}, "*")
	f.Fuzz(func(t *testing.T, content []byte) {
		var m Message
		verdict, err := e.Route(content, testIdentity, &m)
		if _, isPoison := err.(*PoisonError); err != nil && !isPoison || verdict != Publish {
			t.Errorf("%q: verdict %d, error %v", content, verdict, err)
		}
		if err == nil && illegalTopic(m.Topic) != "" {
			t.Errorf("%q: topic %q", content, m.Topic)
		}
	})
}
