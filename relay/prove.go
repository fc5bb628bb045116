package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// errAdopted: a doubt about the history was cleared and the row corrected; the run begins anew with it.
var errAdopted = errors.New("position adopted")

// examine looks whether the slot and the publication are those that the row knows, once the slot is ours. What cannot be
// explained has to be proven harmless from the tables, else it is a *StopError: events may have been lost. It returns the
// glance at the database that the horizon of the run begins with.
//
// row is what Claim returned, epoch the one of this run.
func (r *Relay) examine(ctx context.Context, b base, store *checkpoint.Store, stream *replication.Stream, system replication.System,
	epoch int64, row *checkpoint.Row) (replication.Moment, error) {
	conn, err := store.Conn(ctx)
	if err != nil {
		return replication.Moment{}, err
	}
	slot, err := replication.InspectSlot(ctx, conn, r.cfg.Postgres.Slot)
	if err != nil || slot == nil {
		return replication.Moment{}, errors.Join(err, errHistory)
	}
	position, err := lsn.ParseEnd(slot.ConfirmedFlushLSN)
	if err != nil {
		return replication.Moment{}, err
	}
	glance, err := replication.Glance(ctx, conn, b.version, r.cfg.Postgres.Publication, r.cfg.TableNames())
	if err != nil {
		return replication.Moment{}, err
	}
	doubts, err := r.doubts(ctx, *row, system, position, glance.Fingerprint)
	if err != nil {
		return replication.Moment{}, err
	}
	before := *row
	row.LSN, row.Publication = max(row.LSN, position), glance.Fingerprint
	if len(doubts) == 0 {
		return glance, nil
	}
	if err := r.prove(ctx, stream, &before, strings.Join(doubts, "; ")); err != nil {
		return replication.Moment{}, err
	}
	adopted := *row
	adopted.State, adopted.Epoch, adopted.Timeline = checkpoint.Ready, epoch, system.Timeline
	adopted.Ceiling = 0
	if err := store.Save(ctx, adopted); err != nil {
		return replication.Moment{}, claimError(err)
	}
	return replication.Moment{}, errAdopted
}

// doubts are the differences to what the row knows that nothing explains.
func (r *Relay) doubts(ctx context.Context, row checkpoint.Row, system replication.System, slot lsn.End, publication string) ([]string, error) {
	var doubts []string
	left, err := r.leftAt(ctx, row, system)
	if err != nil {
		return nil, err
	}
	// On another timeline the slot may have come with a standby that had the slot's position earlier than the row's.
	if slot > row.LSN && slot > left && slot > row.Ceiling {
		doubts = append(doubts, fmt.Sprintf("slot %s starts at %s, and events are known to be in Kafka only up to %s (saved %s): "+
			"the slot was moved or made anew", row.Slot, slot, row.LSN, row.SavedAt.UTC().Format(time.RFC3339)))
	}
	if row.Publication != "" && row.Publication != publication {
		doubts = append(doubts, fmt.Sprintf("publication %s, or an outbox table in it, was changed or made anew after %s, "+
			"so that rows may not be in the stream", r.cfg.Postgres.Publication, row.SavedAt.UTC().Format(time.RFC3339)))
	}
	return doubts, nil
}

// leftAt is where the server's history left the row's timeline; 0 while it is the same one.
func (r *Relay) leftAt(ctx context.Context, row checkpoint.Row, system replication.System) (lsn.End, error) {
	if row.Timeline == system.Timeline {
		return 0, nil
	}
	conn, err := replication.Connect(ctx, r.cfg.Postgres)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	left, ok, err := conn.SwitchPoint(ctx, row.Timeline)
	if err == nil && !ok {
		err = &StopError{
			Code: fault.History,
			Reason: fmt.Sprintf("the row was written on timeline %d, which the history of this server, on timeline %d, does not have",
				row.Timeline, system.Timeline),
			Remedy: "is this the right server? If it is: walrelay repair",
		}
	}
	return left, err
}

// prove looks for rows whose events are neither in Kafka nor still to come from the slot. It reads the stream for that, so
// the run must begin anew afterwards.
func (r *Relay) prove(ctx context.Context, stream *replication.Stream, row *checkpoint.Row, doubt string) error {
	r.log.Warn("looking in the tables for events that may be missing", zap.String("why", doubt))
	r.progress.become(Starting, "looking in the tables for events that may be missing: "+doubt)
	c, err := r.cfg.compare(ctx, r.log, audit.Config{}, func(s *replication.Survey) audit.Selection {
		return unproven(row, s.Server.SystemID)
	})
	if err != nil {
		return r.unprovable(doubt, err)
	}
	defer c.close()
	var end lsn.End
	err = r.meanwhile(ctx, stream, func(ctx context.Context) error {
		if _, err := c.sameCluster(ctx); err != nil {
			return err
		}
		end, err = c.load(ctx, "")
		return err
	})
	if err == nil {
		err = r.listen(ctx, stream, c, end)
	}
	if err == nil {
		err = r.meanwhile(ctx, stream, func(ctx context.Context) error {
			if err := c.Compare(ctx); err != nil {
				return err
			}
			return c.list(ctx, nil)
		})
	}
	if err != nil {
		return r.unprovable(doubt, err)
	}
	return r.judge(c.Report(), row, doubt)
}

// judge decides on the result of a proof.
func (r *Relay) judge(report audit.Report, row *checkpoint.Row, doubt string) error {
	const remedy = "restore them: walrelay repair (to see them first: walrelay repair --dry-run)"
	since := "since ever"
	if !row.Horizon.Time.IsZero() {
		since = "since " + row.Horizon.Time.UTC().Format(time.RFC3339)
	}
	switch lost := report.Missing; {
	case lost.Count > 0:
		return &StopError{
			Code: fault.Lost,
			Reason: fmt.Sprintf("%s; %d of %d rows committed %s are in no topic and will not come from the slot, such as %s",
				doubt, lost.Count, report.Rows, since, strings.Join(lost.Examples[:min(3, len(lost.Examples))], ", ")),
			Remedy: remedy,
		}
	case !report.Provable || r.cfg.Messages != nil:
		return &StopError{
			Code: fault.Unproven,
			Reason: fmt.Sprintf("%s; whether events committed %s are missing cannot be proven, since the outbox does not keep all of them",
				doubt, since),
			Remedy: "to go on: walrelay repair, which publishes what the tables still have",
		}
	}
	r.log.Info("nothing is missing: every row is in Kafka or still to come", zap.String("why", doubt), zap.Int64("rows", report.Rows),
		zap.String("since", since))
	return nil
}

// unprovable words an error that keeps the proof from being made. What heals by itself is tried again.
func (r *Relay) unprovable(doubt string, err error) error {
	var forbidden *kafka.ForbiddenError
	var setup *replication.SetupError
	if !errors.As(err, &forbidden) && !errors.As(err, &setup) {
		return err
	}
	return &StopError{Code: fault.Unproven, Reason: doubt + "; whether events are missing cannot be looked up", Remedy: "or, with a role that may: walrelay repair", Err: err}
}

// meanwhile does something that takes long in a goroutine, while this one tells Postgres that we live, and lets it go when
// it shuts down: nobody reads the stream.
func (r *Relay) meanwhile(ctx context.Context, stream *replication.Stream, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	ticker := time.NewTicker(min(r.cfg.Postgres.StatusInterval(), ordersInterval))
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			err := stream.SendStatus(0, false)
			if err == nil {
				err = r.serves(ctx)
			}
			if err != nil {
				cancel()
				<-done
				return err
			}
		}
	}
}

// serves tells whether the server takes connections. Where none can be had for another reason, the stream will tell.
func (r *Relay) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := r.connectSQL(ctx)
	switch {
	case err == nil:
		closeConn(conn)
	case replication.RefusesConnections(err):
		return errShuttingDown
	}
	return nil
}
