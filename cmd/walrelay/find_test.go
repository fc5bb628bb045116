package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/relay"
)

// An event is found by its id or its identity, in its topic or in the dead-letter topic, or said to be still to come.
func TestFind(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := s.Database(t)
		environ := []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + kafkatest.Fake(t).ListenAddrs()[0],
			"WALRELAY_ON_POISON=dead_letter", "WALRELAY_DEAD_LETTER_TOPIC=graveyard", "WALRELAY_HTTP_TOKEN=" + httpToken}
		pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
		cmd, _, address := start(t, environ)
		t.Cleanup(func() { _ = cmd.Wait() })
		await(t, "ready", func() bool { code, _ := get(t, address, "/readyz"); return code == 200 })
		pgtest.Exec(t, url, `INSERT INTO outbox SELECT i, 'order', 'k' || i, 'T', '{}' FROM generate_series(1, 50) i`,
			`INSERT INTO outbox VALUES (51, 'illegal topic', 'k', 'T', '{}')`)
		await(t, "all", func() bool {
			s := relayStatus(t, address)
			return s.DeadLetters == 1 && s.InFlight == 0
		})

		got := walrelay(t, environ, "find", "17")
		if got.code != exitStopped || !strings.HasPrefix(got.out, "published: topic outbox.event.order, partition ") || !strings.Contains(got.out, "its row is in public.outbox\n") {
			t.Errorf("by id: code %d, %s%s", got.code, got.out, got.err)
		}
		_, rest, _ := strings.Cut(got.out, "(")
		identity, _, _ := strings.Cut(rest, ")")
		got = walrelay(t, environ, "find", identity, "--json")
		var found relay.Whereabouts
		if err := json.Unmarshal([]byte(got.out), &found); err != nil || len(found.Places) != 1 || found.Places[0].Event != identity || found.Places[0].Topic != "outbox.event.order" {
			t.Errorf("by identity: %s, %v", got.out, err)
		}
		got = walrelay(t, environ, "find", "51")
		if got.code != exitStopped || !strings.HasPrefix(got.out, "dead letter: topic graveyard, ") || !strings.Contains(got.out, "illegal topic name") {
			t.Errorf("a dead letter: code %d, %s%s", got.code, got.out, got.err)
		}
		got = walrelay(t, environ, "find", "4711")
		if got.code != exitDifferences || !strings.Contains(got.err, "event 4711 is in none of 2 topics since ") {
			t.Errorf("nowhere: code %d, %s%s", got.code, got.out, got.err)
		}
		order(t, "POST", address, "/pause", `{}`)
		await(t, "paused", func() bool { return relayStatus(t, address).State == relay.Paused })
		pgtest.Exec(t, url, `INSERT INTO outbox VALUES (52, 'order', 'k', 'T', '{}')`)
		got = walrelay(t, environ, "find", "52")
		if got.code != exitStopped || !strings.HasPrefix(got.out, "still to come: its row is in public.outbox") {
			t.Errorf("to come: code %d, %s%s", got.code, got.out, got.err)
		}
	})
}
