package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// letter is a dead letter as it stands in its topic.
type letter struct {
	message  router.Message // owns its bytes; the headers are the event's
	place    lsn.Identity
	id       string // of the event; empty: not known
	table    string // where it came from, if that is known
	prefix   string // or as what message
	topic    string // where it should have gone, if that is known
	original []byte // header walrelay.time, if it has one
	stub     bool   // the value was left out
	partial  bool   // see headerPartial
}

// letters reads the dead letters of this source that are chosen, each event once, in the order of the log. others is how
// many belong to other databases.
func (c *comparison) letters(ctx context.Context, topics []string, chosen *selection) (all []letter, others int64, err error) {
	source := lsn.SourceOf(c.survey.Server.SystemID, c.survey.Server.DatabaseOID, c.survey.Publication)
	places := make(map[lsn.Identity]bool)
	err = c.reader.Read(ctx, topics, time.Time{}, func(r *kafka.Record) error {
		l, ok := letterOf(r)
		switch {
		case !ok || places[l.place]:
		case l.place.Source != source:
			others++
		case chosen.takes(&l):
			places[l.place] = true
			all = append(all, l)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b letter) int { return follows(a.place, b.place) })
	return all, others, err
}

// letterOf is false for a record that is no dead letter of a walrelay.
func letterOf(r *kafka.Record) (l letter, ok bool) {
	l.message = router.Message{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Partition: -1}
	for i, h := range r.Headers {
		value := string(h.Value)
		switch name := string(h.Name); name {
		case router.HeaderPosition:
			var err error
			l.place, err = lsn.ParseIdentity(value)
			ok = err == nil
		case headerError:
		case headerTable:
			l.table = value
		case headerPrefix:
			l.prefix = value
		case headerTopic:
			l.topic = value
		case headerSize:
			l.stub = true
		case headerPartial:
			l.partial = true
		case headerPartition:
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				l.message.Partition = int32(n)
			}
		case router.HeaderTime:
			l.original = bytes.Clone(h.Value)
		default:
			if i == 0 && !strings.HasPrefix(name, "walrelay.") {
				l.id = value
			}
			l.message.Headers = append(l.message.Headers, router.Header{Name: name, Value: bytes.Clone(h.Value)})
		}
	}
	return l, ok
}

// String names the letter for a person.
func (l *letter) String() string {
	text := fmt.Sprintf("event %v", l.place)
	if l.id != "" {
		text = fmt.Sprintf("id %s (%v)", l.id, l.place)
	}
	return text
}

// errImpossible is why an event cannot be brought back.
type errImpossible struct{ reason string }

func (e *errImpossible) Error() string { return e.reason }

// revive makes the record of a dead letter, or says why it cannot be made. What the letter has is taken as it is; what it
// lacks is made anew, from the row or from the content of the message, with the mapping of now.
func (c *comparison) revive(ctx context.Context, tx pgx.Tx, cfg Config, l *letter) (router.Message, error) {
	var m router.Message
	var err error
	switch {
	case l.prefix != "" && l.partial && !l.stub:
		m, err = reroute(cfg, l)
	case l.partial || l.stub || l.topic == "":
		m, err = c.fromTable(ctx, tx, l)
	default:
		m = l.message
		m.Topic = l.topic
	}
	var poison *router.PoisonError
	switch {
	case errors.Is(err, audit.ErrNoRow), errors.As(err, &poison):
		return m, &errImpossible{err.Error()}
	case err == nil && !kafka.LegalTopicName(m.Topic):
		return m, &errImpossible{fmt.Sprintf("illegal topic name %q", m.Topic)}
	}
	return m, err
}

// reroute makes the record of a message from its content.
func reroute(cfg Config, l *letter) (router.Message, error) {
	if cfg.Messages == nil {
		return router.Message{}, &errImpossible{"it is a message, and messages are off in the configuration"}
	}
	envelope, err := router.BindEnvelope(cfg.Messages.Route, cfg.Messages.Topics)
	if err != nil {
		return router.Message{}, err
	}
	var m router.Message
	_, err = envelope.Route(l.message.Value, l.place, &m)
	return m.Clone(), err
}

// fromTable makes the record from the row, which may still be there.
func (c *comparison) fromTable(ctx context.Context, tx pgx.Tx, l *letter) (router.Message, error) {
	switch {
	case l.prefix != "":
		return router.Message{}, &errImpossible{"the message was too large for the dead-letter topic, and stands nowhere else"}
	case l.id == "":
		return router.Message{}, &errImpossible{"the row was too large to be read, so that its id is not known; insert it anew if its event is still wanted"}
	}
	return c.Find(ctx, tx, l.table, l.id)
}
