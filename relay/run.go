package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// run is one run: prepare the database, take the slot, and relay with one producer until something ends it.
func (r *Relay) run(ctx context.Context) error {
	base, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	stream, system, err := r.connect(ctx)
	if err != nil {
		return err
	}
	store := checkpoint.NewStore(r.cfg.Postgres.SQL)
	defer closeStore(store)
	epoch, row, err := store.Claim(ctx, r.cfg.Postgres.Slot, system.ID, system.Timeline)
	if err != nil {
		stream.Abort()
		return claimError(err)
	}
	r.proven.Store(true)
	glance, err := r.examine(ctx, base, store, stream, system, epoch, &row)
	if err != nil {
		stream.Abort()
		return err
	}
	if err = r.goOnDraining(ctx, store, row); err == nil {
		err = r.hearFirst(ctx)
	}
	if err != nil {
		stream.Abort()
		return err
	}
	source := lsn.SourceOf(system.ID, base.databaseOID, r.cfg.Postgres.Publication)
	settings, uncertain, err := r.producerConfig(ctx, store, row, source, system.Timeline)
	if err != nil {
		stream.Abort()
		return err
	}

	r.noteRouting(&row)
	row.Epoch, row.Timeline = epoch, system.Timeline
	r.progress.begin(row)
	look := r.glance(base.version)
	producer := kafka.New(settings, r.log)
	r.produced.begin(producer)
	saver := &saver{
		store: store, row: row, producerID: producer.ProducerID, progress: r.progress, metrics: r.metrics, log: r.log,
		interval: r.cfg.SaveInterval, ahead: base.ahead, wake: r.wake, uncertain: uncertain,
		glance: look, horizons: newHorizons(row.Horizon, glance),
	}
	messages, err := newMessages(r.cfg, r.metrics)
	if err != nil {
		stream.Abort()
		return err
	}
	r.unchanged = r.sameHistory(look, row.Publication)
	flow := &flow{
		cfg:       r.cfg,
		progress:  r.progress,
		orders:    r.orders,
		publisher: producer,
		admit:     r.progress.admit,
		decoder:   decoder.New(),
		routes:    newRoutes(r.cfg, base.oids, r.metrics),
		describe:  r.describe,
		messages:  messages,
		window:    checkpoint.NewWindow(row.LSN, r.cfg.MaxMessages, r.cfg.MaxTransactions),
		identity:  lsn.Identity{Source: source},
		uncertain: uncertain,
		branched:  settings.Resume != nil && settings.Resume.Branched,
		resume:    resume{received: row.LSN},
		sent:      row.LSN,
		silence:   newSilence(r.cfg.Postgres.WALSenderTimeout),
	}
	return r.relay(ctx, flow, producer, saver, stream, system)
}

// relay runs the goroutines of one run. The reader is this one. Producer, saver and monitor outlive ctx, so
// that the last events are acknowledged and saved; whichever fails ends all.
func (r *Relay) relay(ctx context.Context, f *flow, p *kafka.Producer, s *saver, stream *replication.Stream, system replication.System) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	group, work := errgroup.WithContext(work)
	group.Go(func() error { return p.Run(work) })
	group.Go(func() error { return r.monitor(work) })
	saving, stopSaving := context.WithCancel(work)
	defer stopSaving()
	saved := make(chan struct{})
	group.Go(func() error {
		defer close(saved)
		return s.run(saving)
	})
	defer context.AfterFunc(ctx, r.wake)()
	defer context.AfterFunc(work, r.wake)()

	limit, stopLimit := within(work, ctx, r.cfg.DrainTimeout)
	defer stopLimit()
	stream, err := r.read(limit, ctx, f, stream, system)
	var needsPerson *StopError
	if (err == nil || errors.As(err, &needsPerson)) && work.Err() == nil {
		// What stands before the row that stops us must be done with: a mended configuration may not fit it any more.
		patience, cancel := context.WithTimeout(limit, r.cfg.DrainTimeout)
		f.drain(patience)
		cancel()
		stopSaving()
		<-saved
		err = cmp.Or(err, r.finish(work, f, s, stream))
	}
	stopWork()
	if failed := group.Wait(); failed != nil {
		return failed
	}
	return err
}

// read relays over one connection after the other, until the relay is to stop. It returns the stream if there
// is one then.
func (r *Relay) read(limit, stop context.Context, f *flow, stream *replication.Stream, system replication.System) (*replication.Stream, error) {
	attempt, cancel := context.WithCancel(stop) // also ends when the run does, such as by a saver that was refused
	defer cancel()
	defer context.AfterFunc(limit, cancel)()
	for {
		r.current.Store(stream)
		r.progress.become(Streaming, "")
		began, before := time.Now(), r.progress.receivedEnd.Load()
		err := f.stream(limit, stop, stream)
		r.patience.ended(time.Since(began), r.progress.receivedEnd.Load() > before)
		if errors.Is(err, errStopped) {
			r.progress.become(Draining, "")
			return stream, nil
		}
		f.detach()
		end(stream, err)
		if !reconnects(err) {
			return nil, err
		}
		if r.progress.drained() {
			return nil, fmt.Errorf("the server ended the connection after a drain (%v): %w", err, errHistory)
		}
		r.failed(err)
		stream, err = r.reconnect(attempt, system)
		if stop.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r.metrics.reconnects.Inc()
	}
}

// end closes a stream that has ended with err. A Postgres that shuts down waits for an orderly end.
func end(stream *replication.Stream, err error) {
	if errors.Is(err, errShuttingDown) {
		_ = stream.Close(time.Second) // the next connection tells what became of the server
		return
	}
	stream.Abort()
}

// reconnects tells whether a new connection can go on where this one ended.
func reconnects(err error) bool {
	var stop *StopError
	if errors.As(err, &stop) || errors.Is(err, errHistory) {
		return false
	}
	return replication.Classify(err) == replication.Unreachable
}

// finish ends a run in order: the row, the status, the end of the stream. The row says clean when nothing of
// this run can still arrive at Kafka.
func (r *Relay) finish(ctx context.Context, f *flow, s *saver, stream *replication.Stream) error {
	err := s.finish(ctx, f.clean())
	if stream == nil {
		return err
	}
	defer stream.Abort()
	if err != nil {
		return err
	}
	if err := f.status(time.Now(), r.progress.mayConfirm()); err != nil {
		return err
	}
	return stream.Close(2 * time.Second)
}

// within derives a context from work that ends a while after stop has ended.
func within(work, stop context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	limit, cancel := context.WithCancel(work)
	unhook := context.AfterFunc(stop, func() {
		pause(limit, patience)
		cancel()
	})
	return limit, func() {
		unhook()
		cancel()
	}
}

func closeStore(store *checkpoint.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = store.Close(ctx) // the server notices either way
}
