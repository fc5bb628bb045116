package relay

import (
	"context"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// messagesLabel takes the place of a table's name in metrics; no table has it, since it has no dot.
const messagesLabel = "messages"

// messages is the outbox without a table.
type messages struct {
	route
	prefix   string
	envelope *router.EnvelopeRoute
	metrics  *metrics
	ignored  int // since the last turn
}

// newMessages is nil where messages are off.
func newMessages(cfg Config, m *metrics) (*messages, error) {
	if cfg.Messages == nil {
		return nil, nil
	}
	envelope, err := router.BindEnvelope(cfg.Messages.Route, cfg.Messages.Topics)
	if err != nil {
		return nil, &StopError{Code: fault.Messages, Reason: "messages", Remedy: "correct the section messages of the configuration", Err: oneLine(err)}
	}
	return &messages{
		route: route{table: messagesLabel, lot: lotOfMessages}, prefix: cfg.Messages.Prefix, envelope: envelope, metrics: m,
	}, nil
}

// emitted meets what pg_logical_emit_message has written. One that is in no transaction is no event: it is there even if
// its transaction was rolled back, has no place among the commits, and comes again at each connection, so that refusing it
// would stop the relay for good.
func (f *flow) emitted(ctx context.Context, m *decoder.Message) error {
	if m.Transactional {
		f.identity.Ordinal++
	}
	switch {
	case f.messages == nil || string(m.Prefix) != f.messages.prefix:
		return nil
	case !m.Transactional:
		f.ignore(m)
		return nil
	case f.resume.has(f.identity.Ordinal):
		return nil
	}
	verdict, err := f.messages.envelope.Route(m.Content, f.identity, &f.message)
	if isPoison(err) {
		f.message.Value, f.message.Partial = m.Content, true // it stands nowhere else
	}
	if err := f.deliver(ctx, &f.messages.route, verdict, err); err != nil {
		return err
	}
	f.resume.done = f.identity.Ordinal
	return nil
}

// ignore counts a message that is no event. The first one is logged; the sender is the one to be told.
func (f *flow) ignore(m *decoder.Message) {
	f.messages.ignored++
	f.progress.ignored(f.messages.prefix, lsn.End(m.LSN))
}

// turn is the part of the flow's turn that is about messages.
func (s *messages) turn(bounds router.Bounds) {
	if s == nil {
		return
	}
	s.envelope.Bounds = bounds
	s.flush(s.metrics)
	if s.ignored > 0 {
		s.metrics.ignored.Add(float64(s.ignored))
		s.ignored = 0
	}
}
