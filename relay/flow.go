package relay

import (
	"context"
	"time"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// Source is the stream of the write-ahead log; *replication.Stream. Tests play scenarios through it.
type Source interface {
	// Next is the next frame; false when none came until then.
	Next(until time.Time) (replication.Frame, bool, error)
	// Buffered tells whether Next will not have to wait.
	Buffered() bool
	// SendStatus tells Postgres what is confirmed, and that we live.
	SendStatus(end lsn.End, ask bool) error
	// Received is when the last bytes came.
	Received() time.Time
}

// Publisher takes messages to Kafka; *kafka.Producer. Tests play scenarios through it.
type Publisher interface {
	// Append takes a message of a transaction, without waiting.
	Append(m *router.Message, tx uint64) (kafka.Status, error)
	// Send lets go what was appended.
	Send()
	// Acked is what Kafka has acknowledged since the last call.
	Acked(dst []kafka.Ack) []kafka.Ack
	// Notify tells that it is worth asking and offering again.
	Notify() <-chan struct{}
	// Trouble is why messages do not get through.
	Trouble() (kafka.Trouble, bool)
	// Resumed ends the suppression of what the run before has published.
	Resumed(examples int) (lost []lsn.Identity, total int)
	// Withdraw takes the record back that halts a partition.
	Withdraw(topic string, partition int32) (kafka.Withdrawn, bool)
	// ClusterID is Kafka's, empty until it is known.
	ClusterID() string
	// ProducerID is what Kafka knows the producer by, -1 until it does.
	ProducerID() int64
}

// flow is the data's path of one run. One goroutine uses it. It outlives the connection to Postgres: after a
// reconnect to the same server the window and the transaction under way go on.
type flow struct {
	cfg       Config
	progress  *progress
	orders    *orders
	publisher Publisher
	admit     func(cluster string, producer int64) (bool, error) // before the first message, until true

	source  Source
	decoder *decoder.Decoder
	routes  *routes
	// describe asks the catalog what the stream does not tell of a relation.
	describe func(context.Context, *decoder.Relation) (replication.Known, error)
	messages *messages // nil: off
	window   *checkpoint.Window
	message  router.Message
	acks     []kafka.Ack
	parked   []kafka.Withdrawn // wait for room in the dead-letter topic

	identity lsn.Identity // of the event under way
	resume   resume
	storm    storm
	silence  silence
	admitted bool
	// uncertain is the end of what the run before may have published without saving it; 0 once it is passed.
	uncertain lsn.End
	// branched: the producer may find events of lost transactions later too.
	branched bool

	until      time.Time // Next must return by then
	nextStatus time.Time
	nextLook   time.Time
	sent       lsn.End // last position told to Postgres
	frames     int     // since the last turn
}

// framesPerTurn bounds how many frames pass between two looks at clock and acknowledgements while a long
// burst is in the buffer.
const framesPerTurn = 256

// ackTick is how soon acknowledgements are looked at while the stream is quiet.
const ackTick = 100 * time.Millisecond

// lookInterval is how often the producer is asked what is wrong.
const lookInterval = 200 * time.Millisecond

// stream relays from source until the connection breaks, something needs a decision, or the relay is to stop
// (errStopped): when stop has ended it goes on to the end of the transaction under way, so that a restart
// repeats nothing, but not beyond the end of ctx.
func (f *flow) stream(ctx, stop context.Context, source Source) error {
	f.attach(source)
	for {
		if f.frames++; f.frames >= framesPerTurn || !source.Buffered() {
			f.frames = 0
			if err := f.turn(); err != nil {
				return err
			}
			if err := f.rest(ctx, stop); err != nil {
				return err
			}
			if stop.Err() != nil && !f.resume.open || ctx.Err() != nil {
				return errStopped
			}
		}
		if !source.Buffered() { // the end of a burst
			f.publisher.Send()
		}
		frame, ok, err := source.Next(f.until)
		if err != nil {
			return err
		}
		if !ok {
			if err := f.silence.over(time.Now(), source.Received(), f.progress.walsender()); err != nil {
				return err
			}
			continue
		}
		if err := f.frame(ctx, frame); err != nil {
			return err
		}
	}
}

// attach begins with a new connection.
func (f *flow) attach(source Source) {
	f.source, f.frames, f.storm = source, framesPerTurn, storm{}
	f.decoder.Reset()
	f.routes.forget()
	f.resume.reconnected()
	f.nextStatus = time.Time{}
	f.progress.serverStops.Store(false)
	f.silence.listening(time.Now())
}

// detach says that the connection is gone; nobody is told anything until the next one.
func (f *flow) detach() { f.source = nil }

// turn does what is not for single events: acknowledgements, the status, the time to wake up.
func (f *flow) turn() error {
	now := time.Now()
	f.settle(now)
	f.routes.turn(now)
	f.progress.recent.turn(now)
	f.messages.turn(f.routes.bounds)
	if !now.Before(f.nextLook) {
		f.nextLook = now.Add(lookInterval)
		trouble, ok := f.publisher.Trouble()
		f.progress.note(trouble, ok)
		if ok {
			f.refused(trouble)
		}
		if f.branched && f.uncertain == 0 {
			f.reportLost()
		}
		if err := f.unpark(); err != nil {
			return err
		}
	}
	if f.progress.draining() {
		f.nextStatus = earlier(f.nextStatus, now.Add(drainStatus))
	}
	if saved := f.progress.mayConfirm(); saved > f.sent || !now.Before(f.nextStatus) {
		if err := f.status(now, saved); err != nil {
			return err
		}
	}
	f.until = f.nextStatus
	if messages, _ := f.window.InFlight(); messages > 0 {
		f.until = earlier(f.until, now.Add(ackTick))
	}
	return nil
}

// settle moves the confirmed position by what Kafka has acknowledged.
func (f *flow) settle(now time.Time) {
	f.acks = f.publisher.Acked(f.acks[:0])
	for _, ack := range f.acks {
		f.window.Acked(ack.Tx>>1, ack.N)
	}
	f.progress.advance(f.window, len(f.acks) > 0, now)
}

// status tells Postgres what is saved, and that we live.
func (f *flow) status(now time.Time, saved lsn.End) error {
	due := !now.Before(f.nextStatus)
	f.nextStatus = now.Add(f.cfg.Postgres.StatusInterval())
	f.sent = max(f.sent, saved)
	if f.source == nil {
		return nil
	}
	ask := due && (f.progress.draining() || f.silence.asks(now, f.source.Received()))
	return f.source.SendStatus(f.sent, ask)
}

func (f *flow) frame(ctx context.Context, frame replication.Frame) error {
	switch {
	case frame.Keepalive:
		return f.keepalive(frame)
	case frame.Size > len(frame.Data):
		return f.oversize(ctx, frame)
	}
	kind, err := f.decoder.Decode(frame.Data)
	if err != nil {
		return &StopError{Code: fault.Log, Reason: "the log cannot be decoded", Err: err}
	}
	switch kind {
	case decoder.KindBegin:
		return f.begin(&f.decoder.Begin)
	case decoder.KindInsert:
		return f.insert(ctx, &f.decoder.Row)
	case decoder.KindCommit:
		return f.commit(&f.decoder.Commit)
	case decoder.KindMessage:
		return f.emitted(ctx, &f.decoder.Message)
	case decoder.KindUpdate, decoder.KindDelete, decoder.KindTruncate:
		f.identity.Ordinal++ // sent by Postgres, hence counted
	}
	return nil
}

func (f *flow) begin(b *decoder.Begin) error {
	f.identity.Commit, f.identity.Time, f.identity.Ordinal = b.Commit, b.Time, 0
	if f.uncertain != 0 && !b.Commit.CoveredBy(f.uncertain) {
		f.certain()
	}
	again, err := f.resume.begin(b.Commit)
	if err != nil || again {
		return err
	}
	f.resume.tx = f.window.Begin(b.Time)
	return nil
}

func (f *flow) commit(c *decoder.Commit) error {
	f.silence.ends()
	if f.resume.commit(c.End) {
		f.window.Commit(c.End)
		f.progress.received(c.End)
	}
	return nil
}

func (f *flow) insert(ctx context.Context, row *decoder.Row) error {
	f.identity.Ordinal++
	if f.resume.has(f.identity.Ordinal) {
		return nil
	}
	source, err := f.routeOf(ctx, row.Relation)
	if err != nil {
		return err
	}
	if source == nil { // an ignored table
		return nil
	}
	verdict, err := source.mapping.Route(row, f.identity, &f.message)
	if err := f.deliver(ctx, source, verdict, err); err != nil {
		return err
	}
	f.resume.done = f.identity.Ordinal
	return nil
}

// routeOf finds the mapping of a relation, nil for an ignored table.
func (f *flow) routeOf(ctx context.Context, relation *decoder.Relation) (*route, error) {
	if found, ok := f.routes.of(relation); ok {
		return found, nil
	}
	var known router.Catalog
	if f.routes.needsCatalog(relation) {
		var err error
		if known, err = f.catalog(ctx, relation); err != nil {
			return nil, err
		}
	}
	return f.routes.bind(relation, known)
}

// deliver hands the message that was routed to the producer; it returns when the producer has it. While the
// producer cannot take it, it waits, and goes on sending status.
func (f *flow) deliver(ctx context.Context, source *route, verdict router.Verdict, err error) error {
	if err != nil {
		return f.poisoned(ctx, source, err)
	}
	if verdict == router.Filtered {
		source.filtered++
		return nil
	}
	for {
		status, err := f.append(&f.message, source.lot)
		if err != nil {
			return f.poisoned(ctx, source, err)
		}
		switch status {
		case kafka.Appended:
			f.window.Add(1)
			source.sent(&f.message)
			f.progress.recent.offer(&f.message, f.kindOf(source))
			return nil
		case kafka.Suppressed:
			source.suppressed++
			f.progress.due.Store(true) // acknowledged by the run before; the position behind it is worth a row
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// A transaction has two numbers with the producer, one for its rows and one for its messages: what becomes of a record that
// the brokers refuse depends on where it came from.
const (
	lotOfRows uint64 = iota
	lotOfMessages
)

// append offers the message. The first one waits until it is known that this is the Kafka cluster that the
// checkpoint row belongs to, and until the row has the producer's id: by that the next run knows whether it can
// refuse what this one may still send.
func (f *flow) append(m *router.Message, lot uint64) (kafka.Status, error) {
	if !f.admitted {
		var err error
		if f.admitted, err = f.admit(f.publisher.ClusterID(), f.publisher.ProducerID()); err != nil || !f.admitted {
			return kafka.Pending, err
		}
	}
	if f.window.Full() {
		return kafka.Full, nil
	}
	return f.publisher.Append(m, f.resume.tx<<1|lot)
}

// keepalive takes a position at which nothing of ours was found. It counts only while nothing is in flight
// and no transaction is open: everything that commits before it was sent before it.
func (f *flow) keepalive(frame replication.Frame) error {
	f.silence.ends()
	now := time.Now()
	f.settle(now)
	f.window.Keepalive(frame.End)
	f.resume.covered(f.window.Confirmed())
	f.progress.advance(f.window, false, now)
	f.progress.received(frame.End)
	if f.uncertain != 0 && !f.resume.open && frame.End >= f.uncertain {
		f.certain()
	}
	if !frame.Reply {
		return nil
	}
	if f.storm.add(now) {
		return errShuttingDown
	}
	return f.status(now, f.progress.mayConfirm())
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
