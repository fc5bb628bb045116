package relay

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgoutputtest"
	"github.com/walrelay/walrelay/replication"
)

// doMessages plays the commands about pg_logical_emit_message.
func (s *stage) doMessages(verb string, args []string) bool {
	envelope := func(key string) []byte {
		return []byte(`{"id": "1", "aggregatetype": "order", "aggregateid": "` + key + `", "payload": {}}`)
	}
	emit := func(m decoder.Message) { s.frame(pgoutputtest.Message(m)) }
	switch verb {
	case "messages": // on, with a dead-letter topic or without one
		cfg := &Messages{Prefix: "walrelay", Topics: []string{"outbox.event.order"}}
		if len(args) > 0 {
			cfg.DeadLetterTopic = args[0]
		}
		s.flow.cfg.Messages = cfg
		var err error
		if s.flow.messages, err = newMessages(s.flow.cfg, s.flow.routes.metrics); err != nil {
			s.t.Fatal(err)
		}
	case "message": // prefix and key
		emit(decoder.Message{Transactional: true, Prefix: []byte(args[0]), Content: envelope(args[1])})
	case "malformed":
		emit(decoder.Message{Transactional: true, Prefix: []byte("walrelay"), Content: []byte("{")})
	case "forbidden": // a topic that is not in the list
		content := `{"id": "1", "aggregatetype": "payment", "aggregateid": "k", "payload": 1}`
		emit(decoder.Message{Transactional: true, Prefix: []byte("walrelay"), Content: []byte(content)})
	case "stray": // in no transaction
		emit(decoder.Message{Prefix: []byte(args[0]), Content: envelope("k")})
	case "huge-message", "huge-stray":
		data := pgoutputtest.Message(decoder.Message{Transactional: verb == "huge-message", Prefix: []byte(args[0]), Content: envelope("k")})
		s.frames <- replication.Frame{Data: data, Size: 20 << 20}
	case "ignored":
		s.logf("%v", testutil.ToFloat64(s.flow.messages.metrics.ignored))
	default:
		return false
	}
	return true
}

const userType = 16500

// doShapes plays the commands about the table's columns.
func (s *stage) doShapes(verb string, args []string) bool {
	switch verb {
	case "column": // a name, whose type is in the catalog or is not: the table has it in place of the column type
		s.relation.Columns[3] = decoder.RelationColumn{Name: args[0], Type: userType}
		s.frame(pgoutputtest.Relation(s.relation))
	case "place": // a column
		table := Table{Name: "public.outbox"}
		table.Route.Placements = []string{args[0] + ":header"}
		s.flow.routes.tables[table.Name] = table.Route
	case "catalog": // from now on it answers: with the type or without it
		s.known = map[uint32]replication.Type{}
		if len(args) > 0 {
			s.known[userType] = replication.Type{BaseModifier: -1, Labels: args}
		}
	default:
		return false
	}
	return true
}

// describe is the stage's catalog.
func (s *stage) describe(context.Context, *decoder.Relation) (replication.Known, error) {
	s.see()
	s.logf("asked for types")
	if s.known == nil {
		return replication.Known{}, errors.New("connection refused")
	}
	return replication.Known{Types: s.known}, nil
}
