package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// Config is what to compare.
type Config struct {
	// Tables are the outbox tables.
	Tables []Table
	// Select chooses their rows.
	Select Selection
	// Source is the source in the identities of our own records.
	Source uint32
	// DeadLetterTopic has events that could not be published; empty: none.
	DeadLetterTopic string
	// Ranked: Publish is going to follow, so it matters which rows are newer than others.
	Ranked bool
	// Progress is told now and then how far a step has come. May be nil.
	Progress func(Progress)
}

// Progress is how far a step has come.
type Progress struct {
	// Step is what is being done, such as "reading public.outbox".
	Step string
	// Done of Total rows or records. Total is 0 where it is not known, and an estimate for tables.
	Done, Total int64
}

// Audit is one comparison.
type Audit struct {
	cfg    Config
	reader *kafka.LogReader
	tables []bound
	ledger *ledger
	report Report
	older  bool // a row from before the horizon is there
	// wentBack: what the topics have from before the horizon was read.
	wentBack bool
	named    Named // the ids that are wanted
}

// bound is a table with its mapping.
type bound struct {
	*Table
	route   *router.Route
	message router.Message
	rank    rank
}

// commitMargin is how much earlier than the horizon's time topics are read from: commit times are not quite in the order
// of the log, and clocks are set.
const commitMargin = 5 * time.Minute

// tick is how often Progress is told.
const tick = 100 * time.Millisecond

// New makes an audit that reads topics with the reader, which stays the caller's. It does no I/O.
func New(cfg Config, reader *kafka.LogReader) (*Audit, error) {
	a := &Audit{cfg: cfg, reader: reader, ledger: newLedger(cfg.Source), named: NewNamed(cfg.Select.IDs)}
	a.ledger.forReplay(cfg.Select.Replay)
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		route, err := router.Bind(t.Route, t.Relation, t.Catalog)
		if err != nil {
			return nil, err
		}
		a.tables = append(a.tables, bound{Table: t, route: route})
	}
	return a, nil
}

// Load reads the selected rows in a transaction, whose snapshot it should keep (repeatable read). It returns the end of
// the log behind everything that the snapshot has. Row security must not hide rows from it.
func (a *Audit) Load(ctx context.Context, tx pgx.Tx) (lsn.End, error) {
	end, now, err := moment(ctx, tx)
	if err != nil {
		return 0, err
	}
	l := a.ledger
	l.from, l.until, l.untilTime = a.cfg.Select.Horizon.LSN, end, now.UnixMilli()
	candidates, err := a.cfg.Select.Horizon.candidates(ctx, tx)
	if err != nil {
		return 0, err
	}
	young, err := a.cfg.Select.Replay.young(ctx, tx)
	if err != nil {
		return 0, err
	}
	for i := range a.tables {
		if err := a.load(ctx, tx, i, candidates, young); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// moment is the end of the log behind the transaction's snapshot, and its time.
func moment(ctx context.Context, tx pgx.Tx) (lsn.End, time.Time, error) {
	var now time.Time
	var text string
	err := tx.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text, clock_timestamp()`).Scan(&text, &now)
	if err != nil {
		return 0, now, fmt.Errorf("ask for the end of the log: %w", err)
	}
	end, err := lsn.ParseEnd(text)
	return end, now, err
}

func (a *Audit) load(ctx context.Context, tx pgx.Tx, i int, candidates, young string) error {
	t := &a.tables[i]
	where, err := a.cfg.Select.where(t.Table, candidates)
	if err != nil {
		return err
	}
	older, err := t.hasOlder(ctx, tx, candidates)
	if err != nil {
		return err
	}
	a.older = a.older || older
	if a.cfg.Ranked {
		if t.rank, err = rankOf(ctx, tx, t.Table, where); err != nil {
			return err
		}
		a.ledger.ranks = append(a.ledger.ranks, t.rank)
	}
	t.rank.young = young
	total := int64(0)
	if where.sql == "" {
		if total, err = t.estimate(ctx, tx); err != nil {
			return err
		}
	}
	done := a.ticker("reading table "+t.Name(), total)
	return t.read(ctx, tx, where, t.rank, false, func(row *decoder.Row, is standing) error {
		done(1)
		message, err := a.route(t, row)
		if message == nil || err != nil || !a.wanted(message) {
			return err
		}
		if len(a.named) > 0 {
			a.named[string(messageID(message))] = true
		}
		return a.ledger.add(message, i, is)
	})
}

// route makes the message of a row, as far as it can be made; nil where a filter leaves the row out.
func (a *Audit) route(t *bound, row *decoder.Row) (*router.Message, error) {
	verdict, err := t.route.Route(row, lsn.Identity{}, &t.message)
	var poison *router.PoisonError
	if err != nil && !errors.As(err, &poison) {
		return nil, fmt.Errorf("table %s: %w", t.Name(), err)
	}
	if verdict == router.Filtered {
		return nil, nil
	}
	return &t.message, nil
}

// wanted tells whether the key is one of those that were chosen.
func (a *Audit) wanted(m *router.Message) bool {
	keys := a.cfg.Select.Keys
	return len(keys) == 0 || m.Key != nil && slices.Contains(keys, string(m.Key))
}

// ticker gives a function that counts and tells Progress now and then.
func (a *Audit) ticker(step string, total int64) func(n int64) {
	var done int64
	var told time.Time
	return func(n int64) {
		done += n
		if a.cfg.Progress != nil && time.Since(told) >= tick {
			told = time.Now()
			a.cfg.Progress(Progress{Step: step, Done: done, Total: total})
		}
	}
}

// Expect counts a message that the slot is going to send as found.
func (a *Audit) Expect(m *router.Message) { a.ledger.expect(m) }

// Topics are those that the rows belong to, in order of their names.
func (a *Audit) Topics() []string {
	topics := slices.Sorted(maps.Keys(a.ledger.topics))
	return slices.DeleteFunc(topics, func(name string) bool { return name == "" }) // of rows that have no topic
}

// Compare reads the topics from the horizon on and strikes the rows off that are there. Rows that are missing then are
// looked for in what the topics have from before it: a row that was updated looks young. Called again, it reads what has
// come since.
func (a *Audit) Compare(ctx context.Context) error {
	topics := a.Topics()
	var since time.Time
	if a.timed() {
		since = a.since()
	}
	a.reader.Progress = func(read, total int64) {
		if a.cfg.Progress != nil {
			a.cfg.Progress(Progress{Step: "reading topics", Done: read, Total: total})
		}
	}
	if err := a.reader.Read(ctx, topics, since, a.take); err != nil {
		return err
	}
	if a.cfg.DeadLetterTopic != "" {
		if err := a.reader.Read(ctx, []string{a.cfg.DeadLetterTopic}, since, a.bury); err != nil {
			return err
		}
	}
	if since.IsZero() || a.wentBack || a.ledger.missing() == 0 {
		return nil
	}
	a.wentBack, a.ledger.earlier = true, true
	defer func() { a.ledger.earlier = false }()
	return a.reader.ReadEarlier(ctx, topics, a.take)
}

// timed tells whether the time of records is that of the commit.
func (a *Audit) timed() bool {
	return !slices.ContainsFunc(a.cfg.Tables, func(t Table) bool { return t.Route.Columns.Timestamp != "" })
}

// since is the time before which none of the rows was committed.
func (a *Audit) since() time.Time {
	from := a.cfg.Select.Horizon.Time
	if a.cfg.Select.Since.After(from) {
		from = a.cfg.Select.Since
	}
	if from.IsZero() {
		return from
	}
	return from.Add(-commitMargin)
}

// take strikes a record off.
func (a *Audit) take(r *kafka.Record) error {
	switch a.ledger.strike(r) {
	case duplicated:
		a.report.Duplicated.add(describe(r))
	case replayed:
		a.report.Replayed++
	case disordered:
		a.report.OutOfOrder.add(describe(r))
	case foreign:
		if a.cfg.Select.covers(r) {
			a.report.Foreign.add(describe(r))
		}
	}
	return nil
}

func (a *Audit) bury(r *kafka.Record) error {
	a.ledger.bury(r)
	return nil
}

// covers tells whether the row of a record would have been selected, as far as a record can tell.
func (s Selection) covers(r *kafka.Record) bool {
	if s.Horizon.XID != 0 || !s.Since.IsZero() || !s.Until.IsZero() || len(s.IDs)+len(s.Types)+len(s.Keys) > 0 {
		return false
	}
	return s.FirstID == "" && s.LastID == "" || within(string(eventID(r)), s.FirstID, s.LastID)
}

// within compares ids as numbers where they are some, else as text.
func within(id, first, last string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	low, errLow := strconv.ParseInt(cmp.Or(first, "-9223372036854775808"), 10, 64)
	high, errHigh := strconv.ParseInt(cmp.Or(last, "9223372036854775807"), 10, 64)
	if errors.Join(err, errLow, errHigh) == nil {
		return low <= n && n <= high
	}
	return id >= first && (last == "" || id <= last)
}

// Left is the number of rows that have no record.
func (a *Audit) Left() int64 { return a.ledger.missing() }
