package relay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// Whatever an event has, its stub is small, tells what was wrong with it, and has its position.
func TestStub(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	m := router.Message{Topic: "orders", Partition: -1, Key: []byte(large), Value: []byte(large), Identity: lsn.Identity{Source: 1, Commit: 2, Time: 3, Ordinal: 4}}
	for _, value := range []string{large, large[:3<<10], large[:3<<10], "small", large} {
		m.Headers = append(m.Headers, router.Header{Name: "h", Value: []byte(value)})
	}
	m.Headers = append(m.Headers, router.Header{Name: router.HeaderPosition, Value: []byte("1")})
	dead := (&flow{routes: &routes{}}).deadLetter("dead", &m, "why", router.Header{Name: headerTable, Value: []byte("public.outbox")})
	got := stub(&dead)
	var headers []string
	for _, h := range got.Headers {
		headers = append(headers, h.Name+"="+string(h.Value[:min(len(h.Value), 40)]))
	}
	want := []string{"h=" + large[:40], "h=small", "walrelay.error=why", "walrelay.table=public.outbox", "walrelay.topic=orders",
		"walrelay.size=1048576", "walrelay.lsn=00000001:0/2:3:4"}
	if diff := cmp.Diff(want, headers); diff != "" || got.Key != nil || got.Value != nil || got.Topic != "dead" {
		t.Errorf("key %d, value %d, %s: %s", len(got.Key), len(got.Value), got.Topic, diff)
	}
}
