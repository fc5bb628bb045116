package relay

import (
	"context"
	"errors"
	"time"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// listener hears what a slot is going to send, for a proof. It publishes and confirms nothing, so all of it comes again.
type listener struct {
	relay   *Relay
	c       *comparison
	decoder *decoder.Decoder
	routes  map[*decoder.Relation]*router.Route // nil: not ours
	message router.Message
	end     lsn.End
}

// listen reads the stream up to the given end of the log.
func (r *Relay) listen(ctx context.Context, stream *replication.Stream, c *comparison, end lsn.End) error {
	defer context.AfterFunc(ctx, stream.Wake)()
	l := &listener{relay: r, c: c, decoder: decoder.New(), routes: map[*decoder.Relation]*router.Route{}, end: lastRecord(end)}
	var next time.Time
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(min(time.Second, r.cfg.Postgres.StatusInterval()))
			if err := stream.SendStatus(0, true); err != nil { // an idle server answers with its position
				return err
			}
		}
		frame, ok, err := stream.Next(next)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		reached, err := l.frame(ctx, frame)
		if reached || err != nil {
			return err
		}
	}
}

// lastRecord is where the last record before an insert position ends. The insert position lies behind the header of a page
// (at most 40 bytes, XLogLongPageHeaderData) when that page is still empty, where no record ends.
func lastRecord(insert lsn.End) lsn.End {
	const page, header = 8192, 40
	if into := insert % page; into <= header {
		return insert - into
	}
	return insert
}

// frame takes one message and tells whether the end is reached.
func (l *listener) frame(ctx context.Context, frame replication.Frame) (bool, error) {
	switch {
	case frame.Keepalive:
		return frame.End >= l.end, nil
	case frame.Size > len(frame.Data): // too long, so it is not going to be published
		return false, nil
	}
	kind, err := l.decoder.Decode(frame.Data)
	if err != nil {
		return false, &StopError{Code: fault.Log, Reason: "the log cannot be decoded", Err: err}
	}
	switch kind {
	case decoder.KindCommit:
		return l.decoder.Commit.End >= l.end, nil
	case decoder.KindInsert:
		return false, l.insert(ctx, &l.decoder.Row)
	}
	return false, nil
}

func (l *listener) insert(ctx context.Context, row *decoder.Row) error {
	route, ok := l.routes[row.Relation]
	if !ok {
		var err error
		if route, err = l.bind(ctx, row.Relation); err != nil {
			return err
		}
		l.routes[row.Relation] = route
	}
	if route == nil {
		return nil
	}
	verdict, err := route.Route(row, lsn.Identity{}, &l.message)
	var poison *router.PoisonError
	if err != nil && !errors.As(err, &poison) || verdict == router.Filtered {
		return err
	}
	l.c.Expect(&l.message)
	return nil
}

// bind finds the mapping of a table; nil for one that is not ours, which the run will stop at.
func (l *listener) bind(ctx context.Context, relation *decoder.Relation) (*router.Route, error) {
	for i, table := range l.relay.cfg.Tables {
		if table.Name != relation.Namespace+"."+relation.Name && l.c.survey.Tables[i].Relation.ID != relation.ID {
			continue
		}
		known, err := l.relay.describe(ctx, relation)
		if err != nil {
			return nil, err
		}
		return router.Bind(table.Route, relation, catalogOf(known))
	}
	return nil, nil
}
