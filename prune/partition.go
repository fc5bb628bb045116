package prune

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// partitioned is a table with partitions by ranges of the column.
type partitioned struct {
	*run
	table string // quoted
	now   Table
}

// partition is one of them.
type partition struct {
	name    string // quoted
	old     bool   // its upper bound is old enough
	pending bool   // a DETACH CONCURRENTLY was interrupted
}

// work creates what is needed next before it drops anything: without a partition for a row, its INSERT fails.
func (p *partitioned) work(ctx context.Context) error {
	if err := p.check(ctx); err != nil {
		return err
	}
	if p.o.Partitions != "" {
		if err := p.create(ctx); err != nil {
			return fmt.Errorf("create partitions of %s: %w", p.table, err)
		}
	}
	all, err := p.list(ctx)
	if err != nil {
		return fmt.Errorf("look at the partitions of %s: %w", p.table, err)
	}
	for _, each := range all {
		if err := p.drop(ctx, each); err != nil {
			return fmt.Errorf("drop partition %s of %s: %w", each.name, p.table, err)
		}
	}
	return nil
}

// check refuses what cannot be worked with.
func (p *partitioned) check(ctx context.Context) error {
	var strategy, key, fallback string
	err := p.conn.QueryRow(ctx, `
		SELECT t.partstrat::text, CASE WHEN t.partnatts = 1 THEN coalesce(a.attname, '') ELSE '' END,
		       CASE WHEN t.partdefid = 0 THEN '' ELSE t.partdefid::regclass::text END
		FROM pg_partitioned_table t LEFT JOIN pg_attribute a ON a.attrelid = t.partrelid AND a.attnum = t.partattrs[0]
		WHERE t.partrelid = $1::text::regclass`, p.table).Scan(&strategy, &key, &fallback)
	switch {
	case err != nil:
		return fmt.Errorf("look at %s: %w", p.table, err)
	case strategy != "r" || key != p.o.Column:
		return &RefusedError{fmt.Sprintf("table %s is not partitioned by ranges of %s alone", p.table, p.o.Column), "name its column with --column"}
	case fallback != "":
		return &RefusedError{fmt.Sprintf("table %s has a default partition %s, with which none can be detached while it is used", p.table, fallback),
			"move its rows and drop it"}
	}
	return nil
}

// list gives the partitions, those with the lowest bounds first.
func (p *partitioned) list(ctx context.Context) ([]partition, error) {
	result, err := p.conn.Query(ctx, `
		SELECT c.oid::regclass::text,
		       coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM ' TO \(''([^'']*)''\)')::timestamptz
		                <= now() - make_interval(secs => $2), false),
		       i.inhdetachpending
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::text::regclass
		ORDER BY substring(pg_get_expr(c.relpartbound, c.oid) FROM ' TO \(''([^'']*)''\)')::timestamptz NULLS LAST`, p.table, p.o.OlderThan.Seconds())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(result, func(row pgx.CollectableRow) (each partition, err error) {
		return each, row.Scan(&each.name, &each.old, &each.pending)
	})
}

// drop takes a partition away if all that it has is old and in Kafka. Detaching it waits for transactions that use the table,
// without holding up others; what they have still written into it is looked for again behind it.
func (p *partitioned) drop(ctx context.Context, each partition) error {
	if each.pending && !p.o.DryRun {
		if _, err := p.conn.Exec(ctx, `ALTER TABLE `+p.table+` DETACH PARTITION `+each.name+` FINALIZE`); err != nil {
			return err
		}
		return p.end(ctx, each)
	}
	if !each.old || p.o.OlderThan == 0 {
		return nil
	}
	busy, err := p.busy(ctx, each)
	if err != nil {
		return err
	}
	if busy {
		p.now.Busy = append(p.now.Busy, each.name)
		return nil
	}
	if p.o.DryRun {
		p.now.Dropped = append(p.now.Dropped, each.name)
		return nil
	}
	if _, err := p.conn.Exec(ctx, `ALTER TABLE `+p.table+` DETACH PARTITION `+each.name+` CONCURRENTLY`); err != nil {
		return err
	}
	return p.end(ctx, each)
}

// end drops a table that was a partition.
func (p *partitioned) end(ctx context.Context, each partition) error {
	busy, err := p.busy(ctx, each)
	if err != nil {
		return err
	}
	if busy {
		return &RefusedError{fmt.Sprintf("%s was detached, and has rows that came meanwhile and may not be in Kafka yet", each.name),
			"once walrelay is past them, DROP TABLE " + each.name}
	}
	if _, err := p.conn.Exec(ctx, `DROP TABLE `+each.name); err != nil {
		return err
	}
	p.now.Dropped = append(p.now.Dropped, each.name)
	return nil
}

// busy tells whether the partition has a row that may not be in Kafka.
func (p *partitioned) busy(ctx context.Context, each partition) (busy bool, err error) {
	err = p.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+each.name+` WHERE NOT `+p.horizon.published()+`)`).Scan(&busy)
	return busy, err
}

// create makes partitions up to Ahead of now, from the end of the last one on. A new table that is attached holds up nobody,
// as PARTITION OF would.
func (p *partitioned) create(ctx context.Context) error {
	step := "1 " + p.o.Partitions
	for {
		var lower, upper, suffix string
		var enough bool
		err := p.conn.QueryRow(ctx, `
			WITH last AS (
				SELECT max(substring(pg_get_expr(c.relpartbound, c.oid) FROM ' TO \(''([^'']*)''\)')::timestamptz) AS bound
				FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass),
			next AS (SELECT coalesce(bound, date_trunc($3, now())) AS lower FROM last)
			SELECT lower::text, (lower + $2::text::interval)::text, to_char(lower, 'YYYYMMDD'), lower > now() + $4::int * $2::text::interval
			FROM next`, p.table, step, p.o.Partitions, p.o.Ahead).Scan(&lower, &upper, &suffix, &enough)
		if err != nil || enough {
			return err
		}
		name := partitionName(p.now.Name, suffix)
		p.now.Created = append(p.now.Created, name)
		if p.o.DryRun {
			return nil // the others follow from this one
		}
		err = pgx.BeginFunc(ctx, p.conn, func(tx pgx.Tx) error {
			for _, statement := range []string{
				fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING GENERATED)`, name, p.table),
				fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, p.table, name, lower, upper),
			} {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// partitionName is the table's name with the day on which the partition begins, cut where it would be too long.
func partitionName(table, suffix string) string {
	const longest = 63 // bytes
	schema, name, _ := strings.Cut(table, ".")
	if room := longest - 1 - len(suffix); len(name) > room {
		name = strings.ToValidUTF8(name[:room], "")
	}
	return pgx.Identifier{schema, name + "_" + suffix}.Sanitize()
}

var errName = errors.New("want schema.table as stored, without quotes")

// quoteName quotes schema.table.
func quoteName(name string) string {
	schema, table, _ := strings.Cut(name, ".")
	return pgx.Identifier{schema, table}.Sanitize()
}
