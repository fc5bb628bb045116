package relay

import (
	"context"
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
	c, settings, err := cfg.forReplay(ctx, o, log, func(s *replication.Survey) audit.Selection {
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
	if _, err := c.load(ctx, ""); err != nil {
		return report, err
	}
	if !o.DryRun { // nothing of an earlier replay that was killed comes behind the look
		fence := kafka.NewLogReader(settings, log)
		defer fence.Close()
		if _, err := fence.Fence(ctx, c.Topics()); err != nil {
			return report, err
		}
	}
	if err := c.Compare(ctx); err != nil {
		return report, err
	}
	chosen := c.Choose()
	report.Already, report.Waiting, report.Unknown = chosen.Already, chosen.Waiting, chosen.Unknown
	report.Events = chosen.Already + chosen.Waiting + chosen.Left
	if err := report.again(ctx, c, settings, o, chosen.Left, log); err != nil {
		return report, err
	}
	after := c.Report()
	report.Buried, report.Impossible, report.ImpossibleEvents = after.Buried, after.Unpublishable.Examples, after.Unpublishable.Count
	report.Gone = chosen.Left - report.Replayed - report.StaleEvents - report.Buried - report.ImpossibleEvents
	return report, nil
}

// again publishes the rows that are left, or counts what it would publish.
func (r *ReplayReport) again(ctx context.Context, c *comparison, settings kafka.Config, o ReplayOptions, left int64, log *zap.Logger) error {
	if o.DryRun || left == 0 {
		return c.list(ctx, func(row audit.Row) error {
			if row.Stale && !o.AllowStale {
				r.stale(row.String())
				return nil
			}
			r.Replayed++
			return nil
		})
	}
	publish := audit.PublishOptions{
		Mark:       router.Header{Name: audit.HeaderReplayed, Value: time.Now().UTC().AppendFormat(nil, router.TimeFormat)},
		AllowStale: o.AllowStale, Total: left, Stale: func(row audit.Row) { r.stale(row.String()) },
	}
	_, err := producing(ctx, settings, log, func(ctx context.Context, producer *kafka.Producer) error {
		return c.within(ctx, "", func(tx pgx.Tx) (err error) {
			r.Replayed, _, err = c.Publish(ctx, tx, producer, publish)
			return err
		})
	})
	return err
}
