package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// turnover is the time between two looks at the partitions of outbox_parts.
const turnover = 800 * time.Millisecond

// partitions makes new partitions and detaches old ones. Rows that are in a partition before it is attached, or after it
// is detached, are no events; their type says so.
type partitions struct {
	url  string
	rng  *rand.Rand
	conn *pgx.Conn
}

// turnOver goes on until ctx ends. What fails, because the server is away or a lock is not to be had, is tried again.
func (w *Writers) turnOver(ctx context.Context, p *partitions) {
	clock := time.NewTicker(turnover)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			p.disconnect()
			return
		case <-clock.C:
		}
		step, err := p.turn(ctx)
		if err != nil {
			p.disconnect()
			step = "partition step broken off"
		}
		w.count(step)
	}
}

func (p *partitions) disconnect() {
	if p.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.conn.Close(ctx) // the server may be gone
		p.conn = nil
	}
}

// turn does one step: it finishes a detachment that was broken off, detaches the oldest of three partitions, or attaches a
// new one. A lock that is not to be had at once is not waited for, since all writers would wait behind it.
func (p *partitions) turn(ctx context.Context) (step string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if p.conn == nil {
		if p.conn, err = pgx.Connect(ctx, p.url); err != nil {
			p.conn = nil
			return "", err
		}
		if _, err := p.conn.Exec(ctx, "SET lock_timeout = 200; SET statement_timeout = 3000"); err != nil {
			return "", err
		}
	}
	var current, attached int
	var oldest, pending *string
	err = p.conn.QueryRow(ctx, `
		SELECT (SELECT part FROM current_part), count(*), (array_agg(inhrelid::regclass::text ORDER BY inhrelid))[1],
			(array_agg(inhrelid::regclass::text) FILTER (WHERE inhdetachpending))[1]
		FROM pg_inherits WHERE inhparent = 'outbox_parts'::regclass`).Scan(&current, &attached, &oldest, &pending)
	switch {
	case err != nil:
		return "", err
	case pending != nil:
		return "partition detached at last", p.exec(ctx, fmt.Sprintf("ALTER TABLE outbox_parts DETACH PARTITION %s FINALIZE", *pending))
	case attached < 3:
		return "partition attached", p.attach(ctx, current+1)
	default:
		return "partition detached", p.detach(ctx, *oldest)
	}
}

// attach makes a partition with its columns in another order.
func (p *partitions) attach(ctx context.Context, part int) error {
	return pgx.BeginFunc(ctx, p.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`
			CREATE TABLE outbox_parts_%[1]d (part int NOT NULL DEFAULT %[1]d, unused text, sequence bigint NOT NULL DEFAULT 0, payload jsonb,
				type text NOT NULL, aggregateid text NOT NULL, aggregatetype text NOT NULL, id uuid NOT NULL DEFAULT gen_random_uuid());
			ALTER TABLE outbox_parts_%[1]d DROP COLUMN unused;
			INSERT INTO outbox_parts_%[1]d (aggregatetype, aggregateid, type) VALUES ('order', 'early', '`+noEvent+`');
			ALTER TABLE outbox_parts ATTACH PARTITION outbox_parts_%[1]d FOR VALUES IN (%[1]d);
			UPDATE current_part SET part = %[1]d`, part))
		return err
	})
}

func (p *partitions) detach(ctx context.Context, name string) error {
	how := []string{"", "CONCURRENTLY"}[p.rng.IntN(2)]
	if err := p.exec(ctx, fmt.Sprintf("ALTER TABLE outbox_parts DETACH PARTITION %s %s", name, how)); err != nil {
		return err
	}
	return p.exec(ctx, fmt.Sprintf(`INSERT INTO %s (aggregatetype, aggregateid, type, part, sequence)
		SELECT 'order', 'late', '`+noEvent+`', part, 0 FROM %[1]s LIMIT 1`, name))
}

func (p *partitions) exec(ctx context.Context, sql string) error {
	_, err := p.conn.Exec(ctx, sql)
	return err
}
