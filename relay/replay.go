package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// A replay has two halves. The first chooses events and makes their records: from the dead-letter topics, see letters.go.
// The second, see comeback.go, is the same whatever they come from: it leaves out what is there already, keeps the order
// of keys, marks and publishes.

// HeaderReplayed marks a record that a replay has brought to its topic; the value is the identity of the event. Such a
// record has no walrelay.lsn, since it does not stand in its place.
const HeaderReplayed = "walrelay.replayed"

// ReplayOptions says what Replay brings back.
type ReplayOptions struct {
	// IDs are ids of events, or their identities as walrelay.lsn has them. Empty: all dead letters.
	IDs []string
	// DryRun publishes nothing.
	DryRun bool
	// AllowStale brings events back also where their key has a newer event in the topic already.
	AllowStale bool
	// Progress is told how far it has come. May be nil.
	Progress func(audit.Progress)
}

// ReplayReport is the result of Replay. Replayed + Already + StaleEvents + Impossible.Count = Letters, unless it was
// interrupted.
type ReplayReport struct {
	DryRun bool `json:"dry_run,omitempty"`
	// Letters are the dead letters that were chosen, each event once; Others belong to other databases.
	Letters int64 `json:"dead_letters"`
	Others  int64 `json:"of_other_databases,omitempty"`
	// Replayed are in their topics now (or would be); Already were there before.
	Replayed int64 `json:"replayed"`
	Already  int64 `json:"already"`
	// Stale were left out since their keys have newer events; all are counted, the first are named.
	Stale       []string `json:"stale,omitempty"`
	StaleEvents int64    `json:"stale_events"`
	// Impossible are those of which no record can be made, or that no topic takes, with the reason.
	Impossible []string `json:"impossible,omitempty"`
	// Unknown are IDs for which there is no dead letter.
	Unknown []string `json:"unknown,omitempty"`
}

// selection is what a person has chosen.
type selection struct {
	ids   map[string]bool // with those that were found
	since time.Time       // of the records; zero: all
}

// takes tells whether an event is chosen.
func (s *selection) takes(id string, place lsn.Identity) bool {
	taken := len(s.ids) == 0
	for _, name := range []string{id, place.String()} {
		if _, named := s.ids[name]; named && name != "" {
			s.ids[name], taken = true, true
		}
	}
	return taken
}

// Replay brings dead letters back to their topics. It can be repeated, and relays may run. It needs the right to read the
// topics and, for events that are not whole in the dead-letter topic, their tables. Memory: all that is chosen.
func Replay(ctx context.Context, cfg Config, o ReplayOptions, log *zap.Logger) (ReplayReport, error) {
	cfg = cfg.withDefaults()
	topics := cfg.deadLetterTopics()
	if len(topics) == 0 {
		return ReplayReport{}, &replication.SetupError{
			Code:    fault.Configuration,
			Problem: "no dead-letter topic is configured",
			Remedy: "set on_poison to dead_letter, for this command alone if you like: WALRELAY_ON_POISON=dead_letter; " +
				"dead_letter_topic names the topic",
		}
	}
	c, err := cfg.compare(ctx, log, audit.Config{Progress: o.Progress}, func(*replication.Survey) audit.Selection { return audit.Selection{} })
	if err != nil {
		return ReplayReport{}, err
	}
	defer c.close()
	if _, err := c.sameCluster(ctx); err != nil {
		return ReplayReport{}, err
	}
	// Not the name of the relays, which would be refused from then on.
	settings := cfg.Kafka
	settings.TransactionalID = c.transactionalID + "/replay"
	reader := kafka.NewLogReader(settings, log)
	defer reader.Close()
	r := &replay{comparison: c, cfg: cfg, o: o, reader: reader, settings: settings, log: log, report: ReplayReport{DryRun: o.DryRun}}
	err = r.run(ctx, topics)
	return r.report, err
}

// replay is one call of Replay.
type replay struct {
	*comparison
	cfg      Config
	o        ReplayOptions
	reader   *kafka.LogReader
	settings kafka.Config
	log      *zap.Logger
	report   ReplayReport
	events   []*comeback
}

func (r *replay) run(ctx context.Context, topics []string) error {
	chosen := &selection{ids: make(map[string]bool, len(r.o.IDs))}
	for _, id := range r.o.IDs {
		chosen.ids[id] = false
	}
	letters, others, err := r.letters(ctx, r.reader, topics, chosen)
	if err != nil {
		return err
	}
	r.report.Letters, r.report.Others = int64(len(letters)), others
	for id, found := range chosen.ids {
		if !found {
			r.report.Unknown = append(r.report.Unknown, id)
		}
	}
	slices.Sort(r.report.Unknown)
	err = r.within(ctx, "", func(tx pgx.Tx) error {
		for i := range letters {
			if err := r.take(ctx, tx, &letters[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = r.leaveOut(ctx)
	}
	if err != nil || r.o.DryRun || len(r.events) == 0 {
		r.report.Replayed = int64(len(r.events))
		return err
	}
	_, err = producing(ctx, r.settings, r.log, r.hand)
	return err
}

// take makes the record of a letter.
func (r *replay) take(ctx context.Context, tx pgx.Tx, l *letter) error {
	m, err := r.revive(ctx, tx, r.cfg, l)
	var impossible *errImpossible
	if errors.As(err, &impossible) {
		r.impossible(l.String(), impossible.reason)
		return nil
	}
	if err != nil {
		return err
	}
	r.events = append(r.events, newComeback(m, l))
	return nil
}

// maxNamed bounds the events or rows that a report names.
const maxNamed = 10_000

func (r *replay) impossible(event, reason string) {
	r.report.Impossible = append(r.report.Impossible, event+": "+reason)
}

// follows compares places of one history.
func follows(a, b lsn.Identity) int {
	return cmp.Or(cmp.Compare(a.Commit, b.Commit), cmp.Compare(a.Ordinal, b.Ordinal))
}

// newComeback marks the record.
func newComeback(m router.Message, l *letter) *comeback {
	original := l.original
	if original == nil {
		original = time.UnixMicro(l.place.Time).UTC().AppendFormat(nil, router.TimeFormat)
	}
	m.Headers = slices.DeleteFunc(slices.Clone(m.Headers), func(h router.Header) bool {
		return h.Name == router.HeaderPosition || h.Name == router.HeaderTime || h.Name == HeaderReplayed
	})
	m.Headers = append(m.Headers, router.Header{Name: router.HeaderTime, Value: original},
		router.Header{Name: HeaderReplayed, Value: l.place.Append(nil)})
	return &comeback{message: m, place: l.place, name: l.String()}
}
