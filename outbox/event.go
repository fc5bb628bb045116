package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event is what is to be published. Texts are UTF-8 without zero bytes.
type Event struct {
	// ID identifies the event for consumers; it arrives as the header id. Empty: NewID. Not allowed where
	// Columns.ID is empty, since then the database makes it.
	ID string
	// AggregateType chooses the topic, by default outbox.event.<AggregateType>. 1 to 249 of the characters that a topic's
	// name may have: letters, digits, dot, underscore, hyphen. Another one would halt the relay.
	AggregateType string
	// AggregateID is the record's key. Events with the same one arrive in the order of their transactions.
	AggregateID string
	// Type tells consumers what happened.
	Type string
	// Payload is the record's value. A []byte goes out as it is and needs a bytea column; anything else is written as JSON
	// (a json.RawMessage as it stands). Nil is a null value, which on a compacted topic deletes the key.
	Payload any
	// Headers of the record beside those of the relay. Only where Columns.Headers is set, or with Outbox.Prefix.
	Headers map[string]string
}

// maxTopic is Kafka's limit of a topic's name.
const maxTopic = 249

// check reports what the database or the relay would refuse.
func (e *Event) check() error {
	switch {
	case e.AggregateType == "":
		return errors.New("empty AggregateType: it chooses the topic")
	case len(e.AggregateType) > maxTopic || !legal(e.AggregateType):
		return fmt.Errorf("an AggregateType %.40q cannot be part of a topic's name: use at most %d of the characters a-z A-Z 0-9 . _ -",
			e.AggregateType, maxTopic)
	case e.AggregateID == "":
		return errors.New("empty AggregateID: it is the record's key, which keeps the order")
	case e.Type == "":
		return errors.New("empty Type")
	}
	for name, text := range map[string]string{"ID": e.ID, "AggregateID": e.AggregateID, "Type": e.Type} {
		if !storable(text) {
			return fmt.Errorf("%s %.40q is not UTF-8 or has a zero byte: Postgres cannot store it", name, text)
		}
	}
	return checkHeaders(e.Headers)
}

const topicCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func legal(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(topicCharacters, r) }) < 0
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

func checkHeaders(headers map[string]string) error {
	for name, value := range headers {
		switch {
		case name == "" || !storable(name) || !storable(value):
			return fmt.Errorf("header %.40q: name and value must be UTF-8 without zero bytes, and the name not empty", name)
		case name == "id" || strings.HasPrefix(name, "walrelay."):
			return fmt.Errorf("header %q is written by the relay: choose another name", name)
		}
	}
	return nil
}

// payload is the value to store: nil, []byte, or JSON as a string, which every driver hands to Postgres as text.
func (e *Event) payload() (any, error) {
	switch p := e.Payload.(type) {
	case nil:
		return nil, nil
	case []byte:
		return p, nil
	case json.RawMessage: // Marshal would write it anew
		if !json.Valid(p) {
			return nil, errors.New("invalid JSON as Payload")
		}
		return string(p), nil
	}
	text, err := marshal(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("write Payload as JSON: %w", err)
	}
	return string(text), nil
}

// marshal is json.Marshal without the escapes for HTML, which would only make the value longer.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
