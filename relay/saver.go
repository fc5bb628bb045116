package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
)

const (
	// unsavedLimit is how long the slot may wait for a row that cannot be written. A server whose disk is full
	// is read-only; if the slot waited for the row, the disk would never drain.
	unsavedLimit = 30 * time.Second
	// saveTimeout bounds one save, above the server's own limits for lock and statement.
	saveTimeout = 10 * time.Second
)

// saver writes the confirmed position to the checkpoint row, and only then lets Postgres be told of it: so
// the row never lags behind the slot, and a crash of Postgres, which forgets the slot's position of the last
// seconds, repeats nothing.
type saver struct {
	store    *checkpoint.Store
	row      checkpoint.Row // as last written
	progress *progress
	metrics  *metrics
	log      *zap.Logger
	interval time.Duration
	ahead    uint64 // a position without events of ours is saved when it is this many bytes ahead
	// producerID is what Kafka knows the producer by.
	producerID func() int64
	wake       func() // the reader, so that it tells Postgres
	// glance looks at the database; horizons makes the row's horizon of it.
	glance   glance
	horizons *horizons
	glanced  time.Time
	// uncertain is flow.uncertain: what somebody else may have published ends there.
	uncertain lsn.End

	failing time.Time // since when saves fail; zero = they do not
}

// run saves until ctx ends. It returns an error only when the row says that going on is wrong.
func (s *saver) run(ctx context.Context) error {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.progress.urgent:
		case <-ticker.C:
			if !s.due() {
				if err := s.lookNow(ctx, glanceInterval); err != nil {
					return err
				}
				continue
			}
		}
		if err := s.save(ctx, s.state()); err != nil {
			return err
		}
	}
}

// state is what the row is to say while the relay runs.
func (s *saver) state() checkpoint.State {
	if s.progress.draining() && s.progress.confirmed.Load() >= s.progress.target.Load() {
		return checkpoint.Drained
	}
	return checkpoint.Ready
}

// finish saves at the end of a run. A drained row stands unless there is something to say: each row is a commit that the
// slot does not get past any more.
func (s *saver) finish(ctx context.Context, clean bool) error {
	switch {
	case !clean:
		return s.save(ctx, checkpoint.Ready)
	case !s.progress.drained():
		return s.save(ctx, checkpoint.Clean)
	case s.progress.due.Load():
		return s.save(ctx, checkpoint.Drained)
	}
	return nil
}

// due tells whether the position is worth a row: when events of ours were acknowledged, or when much foreign
// log has passed. Every save writes log itself, so an idle server must not be kept busy by it.
func (s *saver) due() bool {
	confirmed, saved := s.progress.confirmed.Load(), s.progress.saved.Load()
	switch draining, ceiling := s.progress.draining(), s.progress.ceiling.Load(); {
	case ceiling != 0 && draining:
		return s.progress.due.Load() || confirmed+drainLead/2 > ceiling
	case ceiling != 0: // resumed
		return true
	case s.state() == checkpoint.Drained:
		return true
	}
	return confirmed > saved && (s.progress.due.Load() || confirmed-saved >= s.ahead)
}

// save writes the row and releases the position. The mark due is taken away before the position is read, so
// that an acknowledgement in between is saved the next time.
func (s *saver) save(ctx context.Context, state checkpoint.State) error {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := s.lookNow(ctx, 0); err != nil {
		return err
	}
	if state != checkpoint.Drained { // before the position is read: nothing beyond it is told from here on
		s.progress.ceiling.Store(0)
	}
	s.progress.due.Store(false)
	row := s.row
	row.State, row.Ceiling = state, 0
	row.LSN = max(row.LSN, lsn.End(s.progress.confirmed.Load()))
	if state == checkpoint.Drained {
		row.Ceiling = max(row.LSN, s.horizons.end()) + drainLead
	}
	if committed := s.progress.commitTime.Load(); committed != 0 {
		row.CommitTime = time.UnixMicro(committed)
	}
	row.Horizon = s.horizons.at(row.LSN)
	row.KafkaClusterID = s.progress.cluster()
	row.ProducerID = s.producerID()
	row.MatchByID = row.MatchByID && row.LSN < s.uncertain
	err := s.store.Save(ctx, row)
	if err == nil {
		s.row = row
		s.metrics.saves.Inc()
		s.recovered()
		if row.Ceiling != 0 && !s.progress.drained() {
			s.log.Info("drained: the server can be stopped", zap.Stringer("lsn", row.LSN), zap.Stringer("ceiling", row.Ceiling))
		}
		s.progress.ceiling.Store(uint64(row.Ceiling))
		s.release(row.LSN, row.ProducerID)
		return nil
	}
	if claimedSince(err) {
		return fmt.Errorf("%w: %w", errHistory, err)
	}
	if final(err) {
		return &StopError{Reason: "the checkpoint row refuses this relay", Err: err}
	}
	s.progress.due.Store(true)
	s.failed(err)
	if time.Since(s.failing) > unsavedLimit {
		s.release(lsn.End(s.progress.confirmed.Load()), row.ProducerID)
	}
	return nil
}

// claimedSince tells whether another relay has had the slot since. This one stands by, or starts anew.
func claimedSince(err error) bool {
	var refused *checkpoint.RefusedError
	return errors.As(err, &refused) && refused.Guard == checkpoint.GuardEpoch
}

// final tells whether a refused save means that this relay must not go on: the row belongs to something
// else. A connection that has reached another server (a failover under way) may be
// right the next time.
func final(err error) bool {
	var refused *checkpoint.RefusedError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Guard {
	case checkpoint.GuardServer, checkpoint.GuardRace:
		return false
	}
	return true
}

func (s *saver) release(end lsn.End, producer int64) {
	s.progress.knownProducer.Store(producer)
	select {
	case s.progress.changed <- struct{}{}:
	default:
	}
	if uint64(end) > s.progress.saved.Load() {
		s.progress.saved.Store(uint64(end))
		s.wake()
	}
}

func (s *saver) failed(err error) {
	s.metrics.failed("checkpoint")
	if s.failing.IsZero() {
		s.failing = time.Now()
		s.progress.saveFailing.Store(s.failing.UnixNano())
		s.log.Warn("checkpoint row cannot be saved; positions are held back for a while", zap.Error(err))
	}
}

func (s *saver) recovered() {
	if !s.failing.IsZero() {
		s.log.Info("checkpoint row is saved again")
		s.failing = time.Time{}
		s.progress.saveFailing.Store(0)
	}
}
