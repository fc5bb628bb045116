package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// replayTables publishes rows: those that their topics lack, or all that are chosen. The rows that a relay may still send are
// left to it, so that it may run.
func replayTables(ctx context.Context, cfg Config, o ReplayOptions, log *zap.Logger) (ReplayReport, error) {
	report := ReplayReport{From: FromTables, DryRun: o.DryRun}
	if len(cfg.Tables) == 0 {
		return report, &replication.SetupError{
			Code: fault.Configuration, Problem: "there is no outbox table, and messages stand nowhere but in the log",
			Remedy: "name the table in tables, or take the events from the dead-letter topic, with --from dead-letters",
		}
	}
	c, err := cfg.forReplay(ctx, o, log, func(s *replication.Survey) audit.Selection {
		return audit.Selection{
			Since: o.Since, Until: o.Until, IDs: o.IDs, Types: o.Types, Keys: o.Keys,
			Replay: &audit.Replay{
				Sent: unproven(s.Row, s.Server.SystemID).Horizon, Again: o.Again, From: o.FirstLSN, To: o.LastLSN,
			},
		}
	})
	if err != nil {
		return report, err
	}
	defer c.close()
	if err := c.knowsWhatIsSent(); err != nil {
		return report, err
	}
	if _, err := c.load(ctx, ""); err != nil {
		return report, err
	}
	if !o.DryRun { // nothing of an earlier replay that was killed comes behind the look
		if _, err := c.reader.Fence(ctx, c.Topics()); err != nil {
			return report, err
		}
	}
	if err := c.Compare(ctx); err != nil {
		return report, err
	}
	chosen := c.Choose()
	report.Already, report.Waiting, report.Unknown = chosen.Already, chosen.Waiting, chosen.Unknown
	report.Events = chosen.Already + chosen.Waiting + chosen.Left
	if o.DryRun || chosen.Left == 0 {
		err = c.list(ctx, report.foresee(o))
	} else {
		report.Replayed, err = c.publishAgain(ctx, o, chosen.Left, report.stale, log)
	}
	after := c.Report()
	report.Buried, report.Impossible, report.ImpossibleEvents = after.Buried, after.Unpublishable.Examples, after.Unpublishable.Count
	if err == nil {
		report.Gone = chosen.Left - report.Replayed - report.StaleEvents - report.Buried - report.ImpossibleEvents
	}
	return report, err
}

// knowsWhatIsSent refuses where nothing tells which rows a relay has sent.
func (c *comparison) knowsWhatIsSent() error {
	row := c.survey.Row
	if row != nil && row.SystemID == c.survey.Server.SystemID {
		return nil
	}
	return &replication.SetupError{
		Code:    fault.SlotUnadopted,
		Problem: fmt.Sprintf("walrelay.checkpoint has no row of slot %s on this server, so that nobody knows what was sent", c.survey.Slot),
		Remedy:  "check postgres.slot and the database; walrelay init, walrelay slot adopt or walrelay repair make the row",
	}
}

// foresee counts what a replay would publish.
func (r *ReplayReport) foresee(o ReplayOptions) func(audit.Row) error {
	return func(row audit.Row) error {
		if row.Stale && !o.AllowStale {
			r.stale(row.String())
		} else {
			r.Replayed++
		}
		return nil
	}
}

// publishAgain publishes the rows that are left.
func (c *comparison) publishAgain(ctx context.Context, o ReplayOptions, left int64, stale func(string), log *zap.Logger) (published int64, err error) {
	publish := audit.PublishOptions{
		Mark:       router.Header{Name: audit.HeaderReplayed, Value: time.Now().UTC().AppendFormat(nil, router.TimeFormat)},
		AllowStale: o.AllowStale, Total: left, Stale: func(row audit.Row) { stale(row.String()) },
	}
	_, err = producing(ctx, c.settings, log, func(ctx context.Context, producer *kafka.Producer) error {
		return c.within(ctx, "", func(tx pgx.Tx) (err error) {
			published, _, err = c.Publish(ctx, tx, producer, publish)
			return err
		})
	})
	return published, err
}
