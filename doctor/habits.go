package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/relay"
)

// retained looks how much log the slot keeps, and whether anything bounds that.
func (e *examination) retained(context.Context) error {
	if e.watch == nil || e.watch.Slot == nil {
		return nil
	}
	limits := e.cfg.SlotWatch
	finding := limits.Judge(e.slot, e.watch)
	switch finding.Level {
	case relay.SlotUnready:
		e.say(Fail, "retained", finding.Problem, finding.Remedy)
		return nil
	case relay.SlotWarn:
		e.say(Warn, "retained", finding.Problem, finding.Remedy)
		return nil
	}
	text := fmt.Sprintf("the server keeps %s of log for the slot", relay.Bytes(e.watch.Retained))
	if e.watch.KeepLimit < 0 {
		e.say(Warn, "retained", text+", and nothing bounds that: a relay that stays away fills the disk of the primary",
			e.provider.set("max_slot_wal_keep_size", "64GB")+" (such as half of what is free there)")
		return nil
	}
	e.ok("retained", fmt.Sprintf("%s, at most %s", text, relay.Bytes(e.watch.KeepLimit)))
	return nil
}

// transactions names those that keep the log whatever is confirmed.
func (e *examination) transactions(context.Context) error {
	if e.watch == nil {
		return nil
	}
	for _, pin := range e.watch.Pins {
		e.say(Warn, "transactions", "a write transaction keeps the log since its begin: "+pin.String(),
			e.provider.set("idle_in_transaction_session_timeout", "5min")+" keeps it from coming again")
	}
	if len(e.watch.Pins) == 0 {
		e.ok("transactions", "no write transaction is older than a minute")
	}
	return nil
}

// failover looks whether the slot goes along to standbys.
func (e *examination) failover(ctx context.Context) error {
	if e.watch == nil || e.watch.Slot == nil {
		return nil
	}
	var standbys int
	err := e.conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_replication r USING (pid)
		WHERE NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = a.pid AND s.slot_type = 'logical')`).Scan(&standbys)
	if err != nil {
		return err
	}
	const firstWithFailover = 170000
	switch {
	case e.server.Version < firstWithFailover:
		if standbys > 0 {
			e.say(Info, "failover", fmt.Sprintf("%d standbys, and slots do not go along before Postgres 17", standbys),
				"after a failover: walrelay repair publishes what is missing from the table and goes on")
		}
	case e.watch.Slot.Failover && e.server.SynchronizedStandbySlots == "":
		e.say(Warn, "failover", "the slot goes along to standbys, but may be ahead of them: synchronized_standby_slots is empty",
			e.provider.set("synchronized_standby_slots", "the_standbys_slot"))
	case e.watch.Slot.Failover:
		e.ok("failover", "the slot goes along to standbys")
	case standbys > 0 || e.server.SynchronizedStandbySlots != "":
		e.say(Warn, "failover", "there are standbys, and the slot does not go along to them",
			fmt.Sprintf(`stop walrelay, then: psql "dbname=%s replication=database" -c 'ALTER_REPLICATION_SLOT %s (FAILOVER true)'`, e.server.Database, e.slot))
	}
	return nil
}

// memory looks whether decoding goes to disk.
func (e *examination) memory(ctx context.Context) error {
	if e.watch == nil || e.watch.Decoding.Spills == 0 {
		return nil
	}
	var setting string
	if err := e.conn.QueryRow(ctx, `SELECT current_setting('logical_decoding_work_mem')`).Scan(&setting); err != nil {
		return err
	}
	e.say(Info, "work_mem", fmt.Sprintf("%d transactions did not fit logical_decoding_work_mem (%s) and went to the server's disk, %s",
		e.watch.Decoding.SpilledTransactions, setting, relay.Bytes(e.watch.Decoding.SpilledBytes)),
		"for walrelay's session alone: postgres.logical_decoding_work_mem: 256MB")
	return nil
}

// updates looks for an application that updates outbox rows and hopes that this publishes something.
func (e *examination) updates(ctx context.Context) error {
	for _, table := range e.tables {
		var inserts, updates int64
		err := e.conn.QueryRow(ctx, `SELECT n_tup_ins, n_tup_upd FROM pg_stat_all_tables WHERE relid = $1`, table.Relation.ID).Scan(&inserts, &updates)
		if errors.Is(err, pgx.ErrNoRows) { // a partitioned table has none of its own
			continue
		}
		if err != nil {
			return err
		}
		if updates > 0 {
			e.say(Info, "updates", fmt.Sprintf("%d rows of %s were updated: an UPDATE or upsert publishes nothing", updates, table.Name()),
				"insert a row for each event")
		}
	}
	return nil
}

// subscriptions looks for outbox rows that come from another server, which may have published them already.
func (e *examination) subscriptions(ctx context.Context) error {
	for _, table := range e.tables {
		var fed bool
		err := e.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = $1)`, table.Relation.ID).Scan(&fed)
		if err != nil {
			return err
		}
		if fed {
			e.say(Warn, "subscription", fmt.Sprintf("rows of %s come by logical replication: with a walrelay on that server too, each event is published twice", table.Name()),
				"let one of the two relay; or take the table out of the subscription's publication")
		}
	}
	return nil
}

// skewed is a difference between clocks that shows in times and lags.
const skewed = 2 * time.Second

// clock compares the server's clock with ours: latencies are measured from one to the other.
func (e *examination) clock(ctx context.Context) error {
	var theirs time.Time
	before := time.Now()
	if err := e.conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs); err != nil {
		return err
	}
	middle := before.Add(time.Since(before) / 2)
	if skew := theirs.Sub(middle).Abs(); skew > skewed {
		e.say(Warn, "clock", fmt.Sprintf("the clock of Postgres and ours differ by %v", skew.Round(time.Millisecond)), "synchronise both machines with NTP (timedatectl set-ntp true)")
		return nil
	}
	e.ok("clock", "as Postgres has it, within two seconds")
	return nil
}
