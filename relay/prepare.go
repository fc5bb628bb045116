package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// base is what a run knows of the database before it takes the slot.
type base struct {
	databaseOID uint32
	version     int               // server_version_num
	ahead       uint64            // see saver.ahead
	oids        map[uint32]string // of the outbox tables
}

// prepare looks at the database, and makes what a relay needs if this is the very first start; in every other
// case a missing piece is an error, because events may have been lost with it.
func (r *Relay) prepare(ctx context.Context) (base, error) {
	prepared, err := replication.Setup(ctx, r.cfg.Postgres, replication.SetupOptions{
		Tables: r.cfg.TableNames(),
		Check:  r.cfg.Fits,
		Report: func(step replication.Step) {
			if step.Changed {
				r.log.Info(step.Text)
			}
		},
	})
	if err != nil {
		return base{}, err
	}
	if err := r.notSynchronous(prepared.Server.SynchronousStandbyNames); err != nil {
		return base{}, err
	}
	r.warn(prepared)
	r.cfg.Postgres.Slot, r.cfg.Postgres.Publication = prepared.Slot, prepared.Publication
	r.slot.Store(&slotView{name: prepared.Slot})
	b := base{
		databaseOID: prepared.Server.DatabaseOID,
		version:     prepared.Server.Version,
		ahead:       keepaliveLead(prepared.Server.MaxSlotWALKeepSize),
		oids:        make(map[uint32]string),
	}
	for _, table := range prepared.Tables {
		b.oids[table.Relation.ID] = table.Name()
	}
	r.log.Info("database is ready", zap.String("slot", prepared.Slot), zap.String("publication", prepared.Publication),
		zap.Strings("tables", r.cfg.TableNames()), zap.Int("server_version", prepared.Server.Version))
	return b, nil
}

// firstToForget is the first version whose pgoutput forgets, when a table becomes a partition or ceases to be one, whether
// its rows are published; before that a connection remembers it from the table's first row on.
const firstToForget = 150000

// warn tells at the start what can be seen to be unlike what people expect.
func (r *Relay) warn(prepared *replication.Prepared) {
	for i, table := range prepared.Tables {
		delayed := slices.ContainsFunc(table.Relation.Columns, func(c decoder.RelationColumn) bool { return c.Name == "scheduled_at" })
		if delayed && r.cfg.Tables[i].Route.Preset == router.PresetOmniBox {
			r.log.Warn("scheduled_at is not honoured: a row is read from the log when it commits, so that a delayed event goes out at once",
				zap.String("table", table.Name()))
		}
		if table.Partitioned && prepared.Server.Version < firstToForget {
			r.log.Warn("Postgres 14 does not send the rows of a partition that had rows before it was attached: attach tables that were "+
				"empty until then, or make partitions with CREATE TABLE ... PARTITION OF", zap.String("table", table.Name()))
		}
	}
}

// notSynchronous refuses to be waited for: a synchronous standby that confirms only what Kafka has acknowledged would
// hold up every commit of every application, and with them the saves without which it confirms nothing.
func (r *Relay) notSynchronous(standbyNames string) error {
	name := r.cfg.Postgres.ApplicationName()
	if !replication.WaitsFor(standbyNames, name) {
		return nil
	}
	return &StopError{
		Code: fault.SynchronousStandby,
		Reason: fmt.Sprintf("synchronous_standby_names is %q, which takes this relay (application_name %s) for a synchronous standby: "+
			"every commit would wait for Kafka", standbyNames, name),
		Remedy: "name your standbys there instead of *, then SELECT pg_reload_conf()",
	}
}

// TableNames are the names of the outbox tables.
func (c Config) TableNames() []string {
	names := make([]string, len(c.Tables))
	for i, table := range c.Tables {
		names[i] = table.Name
	}
	return names
}

// Fits tells whether a table has what its mapping needs; what is missing is a *replication.SetupError.
func (c Config) Fits(table *replication.Table) error {
	for _, configured := range c.Tables {
		if configured.Name == table.Name() {
			_, err := router.Bind(configured.Route, table.Relation, catalogOf(table.Known))
			if err != nil {
				return &replication.SetupError{
					Code:    fault.TableShape,
					Problem: "the outbox table does not fit its mapping",
					Remedy:  "name its columns in the configuration file, under tables: columns, or choose a preset",
					Err:     oneLine(err),
				}
			}
		}
	}
	return nil
}

// oneLine joins the lines of a report.
func oneLine(err error) error { return errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// keepaliveLead is how far a position without events of ours may run ahead of the row: far enough that an idle
// outbox costs nothing, and well below what a slot may hold back before it is lost (negative: no limit).
func keepaliveLead(maxKeep int64) uint64 {
	const usual = 16 << 20
	if maxKeep < 0 {
		return usual
	}
	return uint64(min(usual, maxKeep/8))
}
