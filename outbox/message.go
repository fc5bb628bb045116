package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// envelope is the message as the relay reads it.
type envelope struct {
	ID            string            `json:"id"`
	AggregateType string            `json:"aggregatetype"`
	AggregateID   string            `json:"aggregateid"`
	Type          string            `json:"type"`
	Payload       json.RawMessage   `json:"payload"`
	Headers       map[string]string `json:"headers,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
}

// message is the arguments of one pg_logical_emit_message.
func (o Outbox) message(ctx context.Context, e Event) ([]any, error) {
	if _, raw := e.Payload.([]byte); raw {
		return nil, errors.New("a Payload of type []byte, but a message carries JSON: use a table with a bytea column")
	}
	payload, err := marshal(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("write Payload as JSON: %w", err)
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	text, err := marshal(envelope{e.ID, e.AggregateType, e.AggregateID, e.Type, payload, e.Headers, traceParent(ctx)})
	if err != nil {
		return nil, fmt.Errorf("event as JSON: %w", err)
	}
	return []any{o.Prefix, string(text)}, nil
}

// emit is one statement for all messages, which Postgres writes from left to right.
func emit(rows [][]any) (string, []any) {
	var b strings.Builder
	b.WriteString("SELECT ")
	var args []any
	for i, row := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		args = append(args, row...)
		b.WriteString("pg_catalog.pg_logical_emit_message(true, $" + strconv.Itoa(len(args)-1) + "::text, $" + strconv.Itoa(len(args)) + "::text)")
	}
	return b.String(), args
}
