package prune

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// rows deletes rows of one table that is no partitioned one.
type rows struct {
	*run
	table   string // quoted
	cond    string // which rows
	deleted int64
}

// all goes through the table once, block by block, so that its cost does not grow with what was deleted before.
func (r *rows) all(ctx context.Context) error {
	var pages, tuples int64
	err := r.conn.QueryRow(ctx, `SELECT pg_relation_size(oid) / current_setting('block_size')::bigint, greatest(reltuples, 0)::bigint
		FROM pg_class WHERE oid = $1::text::regclass`, r.table).Scan(&pages, &tuples)
	if err != nil {
		return fmt.Errorf("look up the size of %s: %w", r.table, err)
	}
	step := r.blocks(pages, tuples)
	for block := int64(0); block < pages; block += step {
		begin := time.Now()
		n, err := r.some(ctx, block, block+step)
		if err != nil {
			return fmt.Errorf("delete from %s: %w", r.table, err)
		}
		if r.deleted += n; n > 0 && !pause(ctx, time.Since(begin)) { // half of the time belongs to the others
			return context.Cause(ctx)
		}
	}
	return nil
}

// blocks is how many of them have about a batch of rows.
func (r *rows) blocks(pages, tuples int64) int64 {
	const usual = 30 // rows a block, where nobody has counted
	perBlock := int64(usual)
	if pages > 0 && tuples > pages {
		perBlock = tuples / pages
	}
	return max(1, int64(r.o.Batch)/perBlock)
}

// some deletes what may go between two blocks, in one transaction.
func (r *rows) some(ctx context.Context, from, to int64) (int64, error) {
	doomed := fmt.Sprintf(`ctid = ANY (ARRAY(SELECT ctid FROM ONLY %s WHERE ctid >= '(%d,0)' AND ctid < '(%d,0)' AND %s FOR UPDATE SKIP LOCKED))`,
		r.table, from, to, r.cond)
	switch {
	case r.o.DryRun:
		var n int64
		err := r.conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM ONLY %s WHERE ctid >= '(%d,0)' AND ctid < '(%d,0)' AND %s`,
			r.table, from, to, r.cond)).Scan(&n)
		return n, err
	case r.o.ArchiveFile != nil:
		return r.toFile(ctx, doomed)
	}
	statement := `DELETE FROM ONLY ` + r.table + ` WHERE ` + doomed
	if r.o.ArchiveTable != "" {
		statement = `WITH gone AS (` + statement + ` RETURNING *) INSERT INTO ` + quoteName(r.o.ArchiveTable) + ` SELECT * FROM gone`
	}
	tag, err := r.conn.Exec(ctx, statement)
	return tag.RowsAffected(), err
}

// toFile writes the rows as JSON before the transaction commits.
func (r *rows) toFile(ctx context.Context, doomed string) (n int64, err error) {
	err = pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
		result, err := tx.Query(ctx, `DELETE FROM ONLY `+r.table+` AS t WHERE `+doomed+` RETURNING to_jsonb(t)`)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(result, pgx.RowTo[json.RawMessage])
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, line := range lines {
			b.Write(line)
			b.WriteByte('\n')
		}
		if _, err := r.o.ArchiveFile.Write([]byte(b.String())); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if file, ok := r.o.ArchiveFile.(interface{ Sync() error }); ok && len(lines) > 0 {
			if err := file.Sync(); err != nil {
				return fmt.Errorf("archive: %w", err)
			}
		}
		n = int64(len(lines))
		return nil
	})
	return n, err
}

// older is the condition that a row is old enough.
func (r *run) older() string {
	if r.o.OlderThan == 0 {
		return "true"
	}
	return fmt.Sprintf("%s < now() - interval '%s seconds'", pgx.Identifier{r.o.Column}.Sanitize(), strconv.FormatFloat(r.o.OlderThan.Seconds(), 'f', 6, 64))
}

// pause waits, and reports false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
