package relay

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// Seen is an event that Tail has seen committed. Its slices are valid only during the call that hands it over.
type Seen struct {
	// Source is the table, schema.table, or "messages".
	Source  string
	Message *router.Message
	// Filtered: the relay would leave it out.
	Filtered bool
	// Poison is why the relay could not publish it; Message is not complete then.
	Poison error
}

// tail is one call of Tail.
type tail struct {
	*Relay
	routes   *routes
	messages *messages
	decoder  *decoder.Decoder
	identity lsn.Identity
	message  router.Message
	each     func(Seen) error
}

// Tail hands over each event as it is committed, as the relay would publish it, until ctx ends or each returns an error. It
// reads through a temporary slot of its own, beside a relay that may be running, and publishes and saves nothing. Ready is
// called when everything that commits from then on is seen.
func (r *Relay) Tail(ctx context.Context, ready func(), each func(Seen) error) error {
	t := tail{Relay: r, routes: newRoutes(r.cfg, nil, r.metrics), decoder: decoder.New(), each: each}
	var err error
	if t.messages, err = newMessages(r.cfg, r.metrics); err != nil {
		return err
	}
	database, err := t.inspect(ctx)
	if err != nil {
		return err
	}
	conn, err := replication.Connect(ctx, r.cfg.Postgres)
	if err != nil {
		return err
	}
	t.identity.Source = lsn.SourceOf(conn.System.ID, database, r.cfg.Postgres.Publication)
	slot := "walrelay_tail_" + strings.ToLower(rand.Text()[:12])
	if err := conn.CreateTemporarySlot(ctx, slot); err != nil {
		conn.Close()
		return err
	}
	stream, err := conn.Start(ctx, slot, r.cfg.Postgres.Publication)
	if err != nil {
		return err
	}
	defer stream.Abort() // the slot ends with the connection
	defer context.AfterFunc(ctx, stream.Wake)()
	ready()
	return t.read(ctx, stream)
}

// inspect looks whether the database can be read from without harm, and which publication has the tables. It returns the
// database's oid.
func (t *tail) inspect(ctx context.Context) (uint32, error) {
	conn, err := t.connectSQL(ctx)
	if err != nil {
		return 0, err
	}
	defer closeConn(conn)
	server, err := replication.InspectServer(ctx, conn)
	if err != nil {
		return 0, err
	}
	if err := t.notSynchronous(server.SynchronousStandbyNames); err != nil {
		return 0, err
	}
	_, t.cfg.Postgres.Publication = t.cfg.Postgres.Names(server.Database)
	publication, err := replication.FindPublication(ctx, conn, server.Version, t.cfg.Postgres.Publication)
	if err != nil || publication != nil {
		return server.DatabaseOID, err
	}
	return 0, &replication.SetupError{Code: fault.PublicationMissing, Problem: "publication " + t.cfg.Postgres.Publication + " does not exist", Remedy: "run walrelay init"}
}

// read goes through the stream, and tells the server now and then how far it has come, so that it need not keep the log.
func (t *tail) read(ctx context.Context, stream *replication.Stream) error {
	var end lsn.End
	var next time.Time
	for ctx.Err() == nil {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(t.cfg.Postgres.StatusInterval())
			if err := stream.SendStatus(end, false); err != nil {
				return err
			}
		}
		frame, ok, err := stream.Next(next)
		switch {
		case err != nil:
			return err
		case !ok:
			continue
		case frame.Keepalive:
			if end = max(end, frame.End); frame.Reply {
				next = time.Time{}
			}
			continue
		case frame.Size > len(frame.Data):
			err = t.each(Seen{Poison: fmt.Errorf("an event of %d bytes, above postgres.max_event_bytes", frame.Size)})
		default:
			end, err = t.frame(ctx, frame, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tail) frame(ctx context.Context, frame replication.Frame, end lsn.End) (lsn.End, error) {
	kind, err := t.decoder.Decode(frame.Data)
	if err != nil {
		return end, &StopError{Code: fault.Log, Reason: "the log cannot be decoded", Err: err}
	}
	switch kind {
	case decoder.KindBegin:
		b := &t.decoder.Begin
		t.identity.Commit, t.identity.Time, t.identity.Ordinal = b.Commit, b.Time, 0
	case decoder.KindCommit:
		return t.decoder.Commit.End, nil
	case decoder.KindInsert:
		t.identity.Ordinal++
		return end, t.row(ctx, &t.decoder.Row)
	case decoder.KindMessage:
		return end, t.emitted(&t.decoder.Message)
	case decoder.KindUpdate, decoder.KindDelete, decoder.KindTruncate:
		t.identity.Ordinal++
	}
	return end, nil
}

func (t *tail) row(ctx context.Context, row *decoder.Row) error {
	source, ok := t.routes.of(row.Relation)
	if !ok {
		var known router.Catalog
		if t.routes.needsCatalog(row.Relation) {
			found, err := t.describe(ctx, row.Relation)
			if err != nil {
				return err
			}
			known = catalogOf(found)
		}
		var err error
		if source, err = t.routes.bind(row.Relation, known); err != nil {
			return err
		}
	}
	if source == nil { // an ignored table
		return nil
	}
	verdict, err := source.mapping.Route(row, t.identity, &t.message)
	return t.hand(source.table, verdict, err)
}

func (t *tail) emitted(m *decoder.Message) error {
	if !m.Transactional {
		return nil // no event, see flow
	}
	t.identity.Ordinal++
	if t.messages == nil || string(m.Prefix) != t.messages.prefix {
		return nil
	}
	verdict, err := t.messages.envelope.Route(m.Content, t.identity, &t.message)
	return t.hand(messagesLabel, verdict, err)
}

// hand hands an event over.
func (t *tail) hand(source string, verdict router.Verdict, err error) error {
	if err != nil && !isPoison(err) {
		return err
	}
	return t.each(Seen{Source: source, Message: &t.message, Filtered: verdict == router.Filtered, Poison: err})
}
