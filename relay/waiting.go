package relay

import (
	"context"
	"time"
)

// wait pauses reading until the producer says that something has changed, or until a status is due. Postgres
// keeps the log meanwhile, and the connection lives because we go on talking. A server that shuts down would wait for us
// until we have read everything, so it is let go; what it asks for (see storm) is not seen here.
func (f *flow) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return errStopped
	}
	if f.source != nil && f.progress.serverStops.Load() {
		return errShuttingDown
	}
	if err := f.turn(); err != nil {
		return err
	}
	f.publisher.Send()
	timer := time.NewTimer(time.Until(earlier(f.until, f.nextLook)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errStopped
	case <-f.publisher.Notify():
	case <-f.progress.changed:
	case <-timer.C:
	}
	f.silence.listening(time.Now()) // nobody did meanwhile
	return f.turn()
}

// rest waits while a person wants the relay to pause.
func (f *flow) rest(ctx, stop context.Context) error {
	for {
		reason, paused := f.orders.paused()
		if !paused {
			f.progress.unpause()
			return nil
		}
		if stop.Err() != nil {
			return errStopped
		}
		f.progress.become(Paused, reason)
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// drain waits until Kafka has acknowledged what was handed over, without reading on.
func (f *flow) drain(ctx context.Context) {
	for f.wait(ctx) == nil {
		if messages, _ := f.window.InFlight(); messages == 0 {
			return
		}
	}
}

// clean tells whether nothing of this run can still arrive at Kafka, or come again from Postgres.
func (f *flow) clean() bool {
	messages, _ := f.window.InFlight()
	return messages == 0 && !f.resume.open
}
