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
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// replayLetters brings dead letters back. It has two halves: the first chooses them and makes their records, see letters.go;
// the second, see comeback.go, leaves out what is there already, keeps the order of keys, marks and publishes.
func replayLetters(ctx context.Context, cfg Config, o ReplayOptions, log *zap.Logger) (ReplayReport, error) {
	report := ReplayReport{From: FromDeadLetters, DryRun: o.DryRun}
	topics := cfg.deadLetterTopics()
	if len(topics) == 0 {
		return report, &replication.SetupError{
			Code:    fault.Configuration,
			Problem: "no dead-letter topic is configured",
			Remedy: "set on_poison to dead_letter, for this command alone if you like: WALRELAY_ON_POISON=dead_letter; " +
				"dead_letter_topic names the topic; or take the events from the tables, with --from tables",
		}
	}
	c, err := cfg.forReplay(ctx, o, log, func(*replication.Survey) audit.Selection { return audit.Selection{} })
	if err != nil {
		return report, err
	}
	defer c.close()
	r := &replay{comparison: c, cfg: cfg, o: o, log: log, report: report}
	err = r.run(ctx, topics)
	return r.report, err
}

// replay is one call of Replay.
type replay struct {
	*comparison
	cfg    Config
	o      ReplayOptions
	log    *zap.Logger
	report ReplayReport
	events []*comeback
}

func (r *replay) run(ctx context.Context, topics []string) error {
	chosen, err := newSelection(r.cfg, r.survey, r.o)
	if err != nil {
		return err
	}
	letters, others, err := r.letters(ctx, topics, chosen)
	if err != nil {
		return err
	}
	r.report.Events, r.report.Others, r.report.Unknown = int64(len(letters)), others, chosen.named.Unfound()
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
	if err != nil {
		return err
	}
	if r.o.DryRun || len(r.events) == 0 {
		r.report.Replayed = int64(len(r.events))
		return nil
	}
	_, err = producing(ctx, r.settings, r.log, r.hand)
	return err
}

// take makes the record of a letter.
func (r *replay) take(ctx context.Context, tx pgx.Tx, l *letter) error {
	m, err := r.revive(ctx, tx, r.cfg, l)
	var impossible *errImpossible
	if errors.As(err, &impossible) {
		r.report.impossible(l.String(), impossible.reason)
		return nil
	}
	if err != nil {
		return err
	}
	r.events = append(r.events, newComeback(m, l))
	return nil
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
		return h.Name == router.HeaderPosition || h.Name == router.HeaderTime || h.Name == audit.HeaderReplayed
	})
	m.Headers = append(m.Headers, router.Header{Name: router.HeaderTime, Value: original},
		router.Header{Name: audit.HeaderReplayed, Value: l.place.Append(nil)})
	return &comeback{message: m, place: l.place, name: l.String()}
}
