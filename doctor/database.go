package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// outbox looks at the tables and their columns. They may be read from the log without any privilege, and replica identity
// does not matter for inserts.
func (e *examination) outbox(ctx context.Context) error {
	_, publication := e.cfg.Postgres.Names(e.server.Database)
	e.source = lsn.SourceOf(e.server.SystemID, e.server.DatabaseOID, publication)
	for _, table := range e.cfg.Tables {
		found, err := replication.FindTable(ctx, e.conn, table.Name)
		if err == nil && found == nil {
			err = e.absent(ctx, table.Name)
		}
		if err == nil {
			err = e.cfg.Fits(found)
		}
		var setup *replication.SetupError
		if err != nil && !errors.As(err, &setup) {
			return err
		}
		if err != nil {
			e.fail("table", err, "")
			continue
		}
		e.tables = append(e.tables, found)
		e.ok("table", fmt.Sprintf("%s fits its mapping", table.Name))
	}
	return nil
}

func (e *examination) absent(ctx context.Context, name string) error {
	similar, err := replication.LooksLikeOutbox(ctx, e.conn, name)
	if err != nil {
		return err
	}
	if len(similar) == 0 {
		return &replication.SetupError{Code: fault.TableMissing, Problem: fmt.Sprintf("outbox table %s does not exist", name),
			Remedy: "walrelay init creates it; or name yours in the setting tables"}
	}
	return &replication.SetupError{Code: fault.TableMissing, Problem: fmt.Sprintf("outbox table %s does not exist", name),
		Remedy: "name one in the setting tables; these look like one: " + strings.Join(similar, ", ")}
}

// publication and slot are what walrelay run looks at first, by the same code.
func (e *examination) publication(ctx context.Context) error {
	if len(e.tables) < len(e.cfg.Tables) {
		return nil
	}
	rehearsed, err := replication.Rehearse(ctx, e.cfg.Postgres, e.cfg.TableNames())
	if err != nil {
		e.fail("slot", err, "")
		return nil
	}
	if rehearsed.First {
		e.say(Info, "slot", fmt.Sprintf("slot %s, its publication and its row do not exist yet", rehearsed.Slot),
			"walrelay run makes them at its first start, if its role may; walrelay init does it alone, and walrelay init --sql prints it for a DBA")
		return nil
	}
	e.ok("publication", rehearsed.Publication+" carries the inserts of every outbox table")
	return nil
}

// slotAndRow looks who holds the slot, and what the server thinks of it.
func (e *examination) slotAndRow(ctx context.Context) (err error) {
	if e.watch, err = replication.WatchSlot(ctx, e.conn, e.slot); err != nil {
		return err
	}
	if e.watch.Slot == nil {
		return nil
	}
	holder, err := replication.Holder(ctx, e.conn, e.slot)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s is %s at %s", e.slot, e.watch.Slot.WALStatus, e.watch.Slot.ConfirmedFlushLSN)
	switch {
	case e.watch.Slot.WALStatus == "lost":
		return nil // told by the check of the publication
	case holder == "":
		e.say(Warn, "holder", text+", and nobody streams from it: the server keeps its log", "walrelay run; or, if it is needed no more: walrelay slot drop --yes")
	case !strings.Contains(holder, "application walrelay"):
		e.say(Warn, "holder", text+", held by "+holder+", which is no walrelay: nothing is published",
			fmt.Sprintf("stop that program; or, for now: SELECT pg_terminate_backend(%d);", e.watch.Slot.ActivePID))
	default:
		e.ok("holder", text+", held by "+holder)
	}
	return nil
}
