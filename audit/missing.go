package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// Missing reads the tables again for the rows that have no record, and hands them over (each may be nil), in their order
// where the audit is ranked. They are not missing any more then, and Report has them. The transaction may be another
// one than Load's: rows that were deleted in between stay missing.
func (a *Audit) Missing(ctx context.Context, tx pgx.Tx, each func(Row) error) error {
	done := a.ticker("looking up the missing rows", 0)
	return a.list(ctx, tx, func(row Row, _ *router.Message) error {
		done(1)
		if each == nil {
			return nil
		}
		return each(row)
	})
}

// list hands over the rows that are missing, with their messages.
func (a *Audit) list(ctx context.Context, tx pgx.Tx, each func(Row, *router.Message) error) error {
	candidates, err := a.cfg.Select.Horizon.candidates(ctx, tx)
	if err != nil {
		return err
	}
	left := a.ledger.missing()
	for i := range a.tables {
		if left == 0 {
			return nil
		}
		t := &a.tables[i]
		where, err := a.cfg.Select.where(t.Table, candidates)
		if err != nil {
			return err
		}
		err = t.read(ctx, tx, where, t.rank, a.cfg.Ranked, func(row *decoder.Row, is standing) error {
			taken, err := a.lookAt(t, row, is.micros, each)
			if taken {
				left--
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lookAt hands a row over if it is missing, and tells whether it was.
func (a *Audit) lookAt(t *bound, row *decoder.Row, micros int64, each func(Row, *router.Message) error) (bool, error) {
	verdict, unfit := t.route.Route(row, lsn.Identity{}, &t.message)
	if verdict == router.Filtered {
		return false, nil
	}
	missing, newer := a.ledger.take(&t.message)
	if !missing {
		return false, nil
	}
	found := Row{Table: t.Name(), ID: clip(messageID(&t.message)), Key: shown(t.message.Key), Topic: t.message.Topic, Stale: newer}
	if micros != unordered {
		found.Time = time.UnixMicro(micros)
	}
	var poison *router.PoisonError
	switch {
	case a.ledger.buried(&t.message):
		a.report.Buried++
		return true, nil
	case errors.As(unfit, &poison):
		a.report.Unpublishable.add(found.String() + ": " + poison.Error())
		return true, nil
	case unfit != nil:
		return true, fmt.Errorf("table %s: %w", t.Name(), unfit)
	}
	a.report.Missing.add(found.String())
	return true, each(found, &t.message)
}

// HeaderRepaired marks an event that was missing in its topic and published from its table by a repair; the value is when
// that began.
const HeaderRepaired = "walrelay.repaired"

// PublishOptions says how missing rows are published.
type PublishOptions struct {
	// Mark is a header that they get; without a name: none.
	Mark router.Header
	// AllowStale publishes also rows whose key has a newer event already: that key's last event is then the older one.
	AllowStale bool
	// Stale is told of each row that is left out for that reason. May be nil.
	Stale func(Row)
	// Total is how many rows are missing, for Progress.
	Total int64
}

// Publish puts the rows that are missing into their topics, in their order, and returns when Kafka has acknowledged them.
// It returns how many were published and how many were left out as stale. The producer runs elsewhere; its failure ends
// ctx.
func (a *Audit) Publish(ctx context.Context, tx pgx.Tx, p *kafka.Producer, o PublishOptions) (published, stale int64, err error) {
	done := a.ticker("publishing", o.Total)
	await := func() error {
		if taken, refused := p.WithdrawRefused(); refused != nil {
			published--
			a.unpublishable(shownMessage(&taken.Message), refused)
			return nil
		}
		return Await(ctx, p)
	}
	err = a.list(ctx, tx, func(row Row, m *router.Message) error {
		if row.Stale && !o.AllowStale {
			stale++
			if o.Stale != nil {
				o.Stale(row)
			}
			return nil
		}
		mark(m, row, o.Mark, time.Now())
		taken, err := a.hand(p, row, m, await)
		if taken {
			published++
			done(1)
		}
		return err
	})
	for err == nil && !p.Flushed() {
		err = await()
	}
	return published, stale, err
}

// mark makes a message what it is: published now, from a table. It has no place in the log.
func mark(m *router.Message, row Row, header router.Header, now time.Time) {
	m.Time = now.UnixMilli()
	if n := len(m.Headers); n > 0 && m.Headers[n-1].Name == router.HeaderPosition {
		m.Headers = m.Headers[:n-1]
	}
	if !row.Time.IsZero() {
		m.Headers = append(m.Headers, router.Header{Name: router.HeaderTime, Value: row.Time.UTC().AppendFormat(nil, router.TimeFormat)})
	}
	if header.Name != "" {
		m.Headers = append(m.Headers, header)
	}
}

// hand gives a message to the producer as soon as it takes it. It tells whether it can take it at all.
func (a *Audit) hand(p *kafka.Producer, row Row, m *router.Message, await func() error) (bool, error) {
	for {
		status, err := p.Append(m, 1)
		var poison *kafka.PoisonError
		switch {
		case errors.As(err, &poison):
			a.unpublishable(row.String(), poison)
			return false, nil
		case err != nil:
			return false, err
		case status == kafka.Appended:
			return true, nil
		}
		if err := await(); err != nil {
			return false, err
		}
	}
}

// unpublishable takes note of a row that is missing, and not for lack of publishing.
func (a *Audit) unpublishable(row string, why error) {
	a.report.Missing.Count--
	a.report.Unpublishable.add(row + ": " + why.Error())
}

// Await lets go what was appended and waits until the producer says that something has changed. What waits for a person
// ends it, but for a record that can be withdrawn: publishing can be repeated.
func Await(ctx context.Context, p *kafka.Producer) error {
	trouble, ok := p.Trouble()
	if ok && trouble.Halted() && !trouble.OneRecord() {
		return &HaltedError{trouble}
	}
	return p.Wait(ctx)
}

// HaltedError says that a topic does not take records until somebody mends it.
type HaltedError struct{ Trouble kafka.Trouble }

func (e *HaltedError) Error() string {
	return fmt.Sprintf("publish to topic %s: %v; %s", e.Trouble.Topic, e.Trouble.Err, e.Trouble.Remedy)
}

// FaultCode is the kind of the error.
func (e *HaltedError) FaultCode() fault.Code { return fault.RepairHalted }

func (e *HaltedError) Unwrap() error { return e.Trouble.Err }
