package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// RepairOptions says how Repair works.
type RepairOptions struct {
	// DryRun looks and changes nothing.
	DryRun bool
	// AllowStale publishes missing rows also where their key has a newer event in the topic already.
	AllowStale bool
	// Progress is told how far it has come, Step what was done. Both may be nil.
	Progress func(audit.Progress)
	Step     func(replication.Step)
}

// Outcome is what a repair has found out.
type Outcome string

// The outcomes.
const (
	// Proved: every row has its record, and there is no sign of rows that were deleted.
	Proved Outcome = "proved"
	// Repaired: rows were missing and are in their topics now.
	Repaired Outcome = "repaired"
	// LeftOut: rows are still missing, since their keys have newer events in the topic, or may have: where nothing tells
	// the order of the rows (random ids and no time of creation), every event of the key counts as newer.
	LeftOut Outcome = "left_out"
	// Unprovable: every row that is still there has its record now, but rows were deleted, or events have no rows
	// (messages), so that nobody can tell what was missing.
	Unprovable Outcome = "unprovable"
)

// RepairReport is the result of Repair and Backfill.
type RepairReport struct {
	Outcome Outcome `json:"outcome"`
	// DryRun: nothing was changed; Published is what would have been published.
	DryRun bool `json:"dry_run,omitempty"`
	// Published were missing, and Stale were left out since their keys have newer events.
	Published int64    `json:"published"`
	Stale     []string `json:"stale,omitempty"`
	StaleRows int64    `json:"stale_rows"`
	// Gone were missing and deleted or changed before they could be published.
	Gone int64 `json:"gone"`
	// Unfenced: there is no right to the transactional id, so that a relay which was killed shortly before may have
	// published some of the rows as well.
	Unfenced bool `json:"unfenced,omitempty"`
	// Compared is the comparison before the repair.
	Compared audit.Report `json:"compared"`
}

// Repair publishes what is in the outbox tables and not in the topics, and makes the slot anew so that a relay goes on
// exactly behind it, see replication.Repair. It needs the right to read the tables and the topics. No relay of the slot may
// run.
func Repair(ctx context.Context, cfg Config, o RepairOptions, log *zap.Logger) (RepairReport, error) {
	cfg = cfg.withDefaults()
	if o.DryRun {
		return dryRun(ctx, cfg, o, log)
	}
	var report RepairReport
	err := replication.Repair(ctx, cfg.Postgres, replication.RepairOptions{
		Tables: cfg.TableNames(), Check: cfg.Fits, Report: o.Step,
		Fill: func(ctx context.Context, _ replication.Prepared, h *replication.Handover) (err error) {
			report, err = cfg.fill(ctx, h, fillOptions{
				log: log, progress: o.Progress, mark: audit.HeaderRepaired, publish: audit.PublishOptions{AllowStale: o.AllowStale},
				choose: func(s *replication.Survey) audit.Selection { return unproven(&h.Before, s.Server.SystemID) },
			})
			return err
		},
	})
	return report, err
}

// Backfill publishes the rows that a table has before the first start, from the snapshot of the new slot. It is for
// replication.SetupOptions.Fill with PublishExisting. Records that an interrupted run has published already, or another
// relay before us, are not published again. report is filled in.
func Backfill(cfg Config, progress func(audit.Progress), log *zap.Logger, report *RepairReport) replication.Fill {
	cfg = cfg.withDefaults()
	return func(ctx context.Context, _ replication.Prepared, h *replication.Handover) (err error) {
		*report, err = cfg.fill(ctx, h, fillOptions{
			log: log, progress: progress, publish: audit.PublishOptions{AllowStale: true},
			choose: func(*replication.Survey) audit.Selection { return audit.Selection{} },
		})
		return err
	}
}

type fillOptions struct {
	log      *zap.Logger
	progress func(audit.Progress)
	mark     string // name of a header; empty: none
	publish  audit.PublishOptions
	choose   func(*replication.Survey) audit.Selection
}

// fill publishes the rows of the slot's snapshot that are not in their topics.
func (c Config) fill(ctx context.Context, h *replication.Handover, o fillOptions) (RepairReport, error) {
	compared, err := c.compare(ctx, o.log, audit.Config{Ranked: true, Progress: o.progress}, o.choose)
	if err != nil {
		return RepairReport{}, err
	}
	defer compared.close()
	if h.Row.KafkaClusterID, err = compared.sameCluster(ctx); err != nil {
		return RepairReport{}, err
	}
	// The transaction ends with the loading: nobody's vacuum waits for Kafka.
	if _, err := compared.load(ctx, h.Snapshot); err != nil {
		return RepairReport{}, err
	}
	fenced, err := compared.reader.Fence(ctx, compared.Topics())
	if err != nil {
		return RepairReport{}, err
	}
	if err := compared.Compare(ctx); err != nil {
		return RepairReport{}, err
	}
	report := RepairReport{Compared: compared.Report(), Unfenced: !fenced}
	if compared.Left() > 0 {
		h.Row.ProducerID, err = c.publish(ctx, compared, o, &report)
	}
	report.conclude(compared.Report(), c)
	return report, err
}

// publish runs a producer for what is missing. It returns the producer's id.
func (c Config) publish(ctx context.Context, compared *comparison, o fillOptions, report *RepairReport) (int64, error) {
	o.publish.Total = compared.Left()
	o.publish.Stale = report.leftOut
	o.publish.Mark = router.Header{Name: o.mark, Value: time.Now().UTC().AppendFormat(nil, router.TimeFormat)}
	return producing(ctx, compared.settings, o.log, func(ctx context.Context, producer *kafka.Producer) error {
		return compared.within(ctx, "", func(tx pgx.Tx) (err error) {
			report.Published, report.StaleRows, err = compared.Publish(ctx, tx, producer, o.publish)
			return err
		})
	})
}

// producing runs a producer while f publishes with it. It returns the producer's id.
func producing(ctx context.Context, settings kafka.Config, log *zap.Logger, f func(context.Context, *kafka.Producer) error) (int64, error) {
	producer := kafka.New(settings, log)
	group, ctx := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(ctx)
	group.Go(func() error { return producer.Run(running) })
	group.Go(func() error {
		defer stop()
		return f(ctx, producer)
	})
	err := group.Wait()
	return producer.ProducerID(), err
}

// leftOut takes note of a row whose key has a newer event.
func (r *RepairReport) leftOut(row audit.Row) {
	if len(r.Stale) < maxNamed {
		r.Stale = append(r.Stale, row.String())
	}
}

// conclude fills in what is known at the end.
func (r *RepairReport) conclude(after audit.Report, c Config) {
	r.Gone = after.Missing.Count - r.Published - r.StaleRows
	r.Compared.Buried, r.Compared.Unpublishable = after.Buried, after.Unpublishable
	r.Compared.Missing = after.Missing
	switch {
	case !after.Provable || r.Gone > 0 || c.Messages != nil:
		r.Outcome = Unprovable
	case r.StaleRows > 0:
		r.Outcome = LeftOut
	case r.Published > 0:
		r.Outcome = Repaired
	default:
		r.Outcome = Proved
	}
}

// dryRun compares as a repair would. The slot may still have some of the rows that it finds missing; a repair makes the
// slot anew, and would publish them from the tables.
func dryRun(ctx context.Context, cfg Config, o RepairOptions, log *zap.Logger) (RepairReport, error) {
	c, err := cfg.compare(ctx, log, audit.Config{Ranked: true, Progress: o.Progress}, func(s *replication.Survey) audit.Selection {
		return unproven(s.Row, s.Server.SystemID)
	})
	if err != nil {
		return RepairReport{}, err
	}
	defer c.close()
	if c.survey.At != nil && c.survey.At.ActivePID != 0 {
		return RepairReport{}, &replication.SetupError{
			Code:    fault.SlotHeld,
			Problem: fmt.Sprintf("slot %s is in use by process %d, so events are on their way", c.survey.Slot, c.survey.At.ActivePID),
			Remedy:  "stop every walrelay run of this slot first, or look with walrelay verify",
		}
	}
	if _, err := c.sameCluster(ctx); err != nil {
		return RepairReport{}, err
	}
	if _, err := c.load(ctx, ""); err != nil {
		return RepairReport{}, err
	}
	if err := c.Compare(ctx); err != nil {
		return RepairReport{}, err
	}
	report := RepairReport{DryRun: true, Compared: c.Report()}
	err = c.list(ctx, func(row audit.Row) error {
		if row.Stale && !o.AllowStale {
			report.StaleRows++
			report.leftOut(row)
			return nil
		}
		report.Published++
		return nil
	})
	report.conclude(c.Report(), cfg)
	return report, err
}
