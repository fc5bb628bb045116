package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// horizons turns glances at the database into the horizon of the row: which transaction ids are known to be in Kafka
// once everything up to a position is.
//
// A glance says that all transactions below its Oldest have ended, and so have their commit record below its End. Once
// the saved position has reached End, all of them are in Kafka. And no transaction from an id on was committed before
// the time of a glance that saw this id not begun.
type horizons struct {
	now     checkpoint.Horizon
	glances []replication.Moment // in order, those that may still be of use
}

// maxGlances bounds how many are kept while the saved position, or a long transaction, stays behind. Leaving some out
// makes the horizon older than it could be, which costs only work.
const maxGlances = 64

// add takes a glance that is newer than all before.
func (h *horizons) add(m replication.Moment) {
	if len(h.glances) == maxGlances {
		kept := h.glances[:0]
		for i := 1; i < maxGlances; i += 2 {
			kept = append(kept, h.glances[i])
		}
		h.glances = kept
	}
	h.glances = append(h.glances, m)
}

// at is the horizon when everything up to a position is in Kafka. It never goes back.
func (h *horizons) at(saved lsn.End) checkpoint.Horizon {
	newest := -1
	for i, m := range h.glances {
		if m.End <= saved {
			newest = i
		}
	}
	if newest < 0 {
		return h.now
	}
	g := h.glances[newest]
	before := -1
	for i, m := range h.glances[:newest+1] {
		if m.Next <= g.Oldest {
			before = i
		}
	}
	next := checkpoint.Horizon{XID: g.Oldest, LSN: g.End, Time: h.now.Time}
	if before >= 0 {
		next.Time = h.glances[before].Time
		h.glances = h.glances[before:]
	}
	if next.Time.IsZero() || next.XID < h.now.XID {
		return h.now
	}
	h.now = next
	return next
}

// end is the end of the log at the newest glance.
func (h *horizons) end() lsn.End { return h.glances[len(h.glances)-1].End }

// newHorizons goes on with the row's horizon.
func newHorizons(row checkpoint.Horizon, first replication.Moment) *horizons {
	h := &horizons{now: row}
	h.add(first)
	return h
}

// glanceInterval is how often the publication is looked at while there is nothing to save.
const glanceInterval = time.Minute

// glance looks at the database.
type glance func(context.Context, *pgx.Conn) (replication.Moment, error)

func (r *Relay) glance(version int) glance {
	return func(ctx context.Context, conn *pgx.Conn) (replication.Moment, error) {
		return replication.Glance(ctx, conn, version, r.cfg.Postgres.Publication, r.cfg.TableNames())
	}
}

// lookNow looks at the database unless that was done so shortly before. An error ends the run, which begins anew with the
// question what is missing: rows were inserted that are not in the stream, or may have been. A look that fails leaves
// the horizon where it is; whether the server answers shows at the save.
func (s *saver) lookNow(ctx context.Context, interval time.Duration) error {
	if interval > 0 && time.Since(s.glanced) < interval {
		return nil
	}
	s.glanced = time.Now()
	conn, err := s.store.Conn(ctx)
	if err != nil {
		return nil
	}
	m, err := s.glance(ctx, conn)
	if err != nil {
		return nil
	}
	if m.Fingerprint != s.row.Publication {
		s.progress.publicationChanged.Store(true)
		return errChanged
	}
	s.horizons.add(m)
	return nil
}
