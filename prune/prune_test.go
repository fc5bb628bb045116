package prune_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
	"github.com/walrelay/walrelay/prune"
)

// What goes is old and of a transaction below the horizon, whatever its time says, and however it was written.
func TestRows(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		d := newDatabase(t, s)
		long, err := connect(t, d.url).Begin(t.Context()) // begins early, commits late
		if err != nil {
			t.Fatal(err)
		}
		exec(t, long, `INSERT INTO outbox (aggregateid, created_at) VALUES ('long', now() - interval '9 days')`)
		d.exec(insert("old", "9 days"), insert("young", "1 hour"), insert("updated", "9 days"))
		var running string
		if err := long.QueryRow(t.Context(), `SELECT pg_current_xact_id()`).Scan(&running); err != nil {
			t.Fatal(err)
		}
		d.checkpoint(`'` + running + `'`)
		if got := d.prune(prune.Options{OlderThan: 7 * day}); got.Deleted != 0 {
			t.Errorf("%+v, although nothing is known to be in Kafka", got)
		}
		if err := long.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.checkpoint(now)
		d.exec(insert("unpublished", "9 days"), `BEGIN; SAVEPOINT s; `+insert("in a savepoint", "9 days")+`; COMMIT`,
			`UPDATE outbox SET payload = '1' WHERE aggregateid = 'updated'`)
		if got := d.prune(prune.Options{OlderThan: 7 * day, DryRun: true}); got.Deleted != 2 || len(d.keys()) != 6 {
			t.Errorf("dry run: %+v, left %q", got, d.keys())
		}
		if got := d.prune(prune.Options{OlderThan: 7 * day}); got.Deleted != 2 {
			t.Errorf("%+v", got)
		}
		if want := []string{"in a savepoint", "unpublished", "updated", "young"}; !cmp.Equal(d.keys(), want) {
			t.Errorf("left %q, want %q", d.keys(), want)
		}
		d.checkpoint(now)
		if got := d.prune(prune.Options{}); got.Deleted != 4 {
			t.Errorf("of any age: %+v", got)
		}
	})
}

// Each horizon near the row's transaction, and the ends of what 32 bits of a transaction id can tell.
func TestHorizon(t *testing.T) {
	t.Parallel()
	for shift, want := range map[string]int64{
		"x": 0, "x - 1": 0, "x + 1": 1, "x - 4294967296": 0, "x + 4294967296": -1,
	} {
		d := newDatabase(t, pgtest.Shared(t, ""))
		d.exec(insert("row", "9 days"))
		d.checkpoint(`(SELECT (` + strings.ReplaceAll(shift, "x", "xmin::text::numeric") + `)::text::xid8 FROM outbox)`)
		var refused *prune.RefusedError
		var got prune.Table
		err := prune.Run(t.Context(), d.config(), prune.Options{Slot: "s", Tables: []string{"public.outbox"}, Report: func(done prune.Table) { got = done }})
		switch {
		case strings.HasPrefix(shift, "x - 4"): // before the first transaction, as Postgres would never write it
			if err == nil && got.Deleted != 0 {
				t.Errorf("%s: %+v", shift, got)
			}
		case want < 0:
			if !errors.As(err, &refused) {
				t.Errorf("%s: %+v, %v", shift, got, err)
			}
		case err != nil || got.Deleted != want:
			t.Errorf("%s: %+v, %v", shift, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare []string
		o       prune.Options
		want    string
	}{
		"no row":            {want: "nothing is published from here"},
		"no horizon":        {prepare: []string{row("NULL", "", "")}, want: "not known yet"},
		"another server":    {prepare: []string{row("'3'", "", "42")}, want: "of another server"},
		"repairing":         {prepare: []string{row("'3'", "repairing", "")}, want: "has not ended"},
		"another slot":      {prepare: []string{row("'3'", "", ""), strings.Replace(row("NULL", "", ""), "'s'", "'prune_other'", 1), `SELECT pg_create_physical_replication_slot('prune_other')`, `SELECT pg_drop_replication_slot('prune_other')`}},
		"no table":          {prepare: []string{row("'3'", "", "")}, o: prune.Options{Tables: []string{"public.absent"}}, want: "does not exist"},
		"no time":           {prepare: []string{row("'3'", "", "")}, o: prune.Options{OlderThan: day, Column: "at"}, want: "no column at; name the one with the time of a row with --column (created_at)"},
		"no partitions":     {prepare: []string{row("'3'", "", "")}, o: prune.Options{Partitions: "day"}, want: "has no partitions"},
		"default partition": {prepare: []string{row("'3'", "", ""), `CREATE TABLE p (created_at timestamptz) PARTITION BY RANGE (created_at)`, `CREATE TABLE rest PARTITION OF p DEFAULT`}, o: prune.Options{Tables: []string{"public.p"}}, want: "default partition rest"},
		"by list":           {prepare: []string{row("'3'", "", ""), `CREATE TABLE p (created_at timestamptz) PARTITION BY LIST (created_at)`}, o: prune.Options{Tables: []string{"public.p"}}, want: "not partitioned by ranges"},
	} {
		d := newDatabase(t, pgtest.Shared(t, ""))
		d.exec(c.prepare...)
		if c.o.Slot = "s"; c.o.Tables == nil {
			c.o.Tables = []string{"public.outbox"}
		}
		err := prune.Run(t.Context(), d.config(), c.o)
		var refused *prune.RefusedError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	for _, o := range []prune.Options{{}, {Batch: -1}, {Partitions: "hour"}, {ArchiveTable: "a.b", ArchiveFile: new(bytes.Buffer)}, {Partitions: "day", ArchiveTable: "a.b"}, {Ahead: 1000}} {
		if o.Batch != 0 || o.Partitions != "" || o.ArchiveTable != "" || o.Ahead != 0 {
			o.Tables = []string{"public.outbox"}
		}
		if o.Check() == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Rows are in the archive if and only if they are gone, and rows that somebody has locked stay.
func TestArchive(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, pgtest.Shared(t, ""))
	d.exec(`CREATE TABLE archive (LIKE outbox)`, `INSERT INTO outbox (aggregateid, created_at) SELECT n, now() - interval '9 days' FROM generate_series(1, 5000) n`)
	d.checkpoint(now)
	lock, err := connect(t, d.url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, lock, `SELECT FROM outbox WHERE aggregateid = '7' FOR UPDATE`)
	if got := d.prune(prune.Options{OlderThan: day, ArchiveTable: "public.archive", Batch: 100}); got.Deleted != 4999 || !cmp.Equal(d.keys(), []string{"7"}) {
		t.Errorf("%+v, left %q", got, d.keys())
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := d.count(`SELECT count(DISTINCT aggregateid) FROM archive WHERE payload IS NULL AND created_at < now() - interval '8 days'`); n != 4999 {
		t.Errorf("%d rows in the archive", n)
	}

	var file synced
	if got := d.prune(prune.Options{OlderThan: day, ArchiveFile: &file}); got.Deleted != 1 || file.syncs != 1 {
		t.Errorf("%+v, %d syncs", got, file.syncs)
	}
	if line := file.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, `"aggregateid": "7"`) {
		t.Errorf("the file has %s", line)
	}
	d.exec(insert("kept", "9 days"))
	d.checkpoint(now)
	file.fail = errors.New("disk full")
	err = prune.Run(t.Context(), d.config(), prune.Options{Slot: "s", Tables: []string{"public.outbox"}, ArchiveFile: &file})
	if !errors.Is(err, file.fail) || !cmp.Equal(d.keys(), []string{"kept"}) {
		t.Errorf("%v, left %q", err, d.keys())
	}
}

// synced is a file that may fail.
type synced struct {
	bytes.Buffer
	syncs int
	fail  error
}

func (s *synced) Sync() error { s.syncs++; return s.fail }

const day = 24 * time.Hour

type database struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

func newDatabase(t *testing.T, s *pgtest.Server) *database {
	t.Helper()
	d := &database{t: t, url: s.Database(t)}
	if err := migrations.Apply(t.Context(), d.config()); err != nil {
		t.Fatal(err)
	}
	d.conn = connect(t, d.url)
	d.exec(migrations.OutboxSQL("public", "outbox"), `ALTER TABLE outbox ALTER aggregatetype SET DEFAULT 'o', ALTER type SET DEFAULT 't'`)
	return d
}

// row is the statement that makes the row of slot s. Empty: what a relay would write.
func row(horizon, state, system string) string {
	if state == "" {
		state = "ready"
	}
	system = "'" + system + "'"
	if system == "''" {
		system = `(SELECT (CASE WHEN system_identifier < 0 THEN system_identifier::numeric + 18446744073709551616 ELSE system_identifier END)::text FROM pg_control_system())`
	}
	return fmt.Sprintf(`INSERT INTO walrelay.checkpoint (slot, state, system_id, timeline, lsn, horizon) VALUES ('s', '%s', %s, 1, '0/0', %s)
		ON CONFLICT (slot) DO UPDATE SET horizon = excluded.horizon`, state, system, horizon)
}

// now is the transaction that sets the horizon: everything before it is below.
const now = `pg_current_xact_id()`

// checkpoint sets the horizon, as the relay does when everything below it is in Kafka.
func (d *database) checkpoint(horizon string) { d.exec(row(horizon, "", "")) }

func insert(key, age string) string {
	return fmt.Sprintf(`INSERT INTO outbox (aggregateid, created_at) VALUES ('%s', now() - interval '%s')`, key, age)
}

func (d *database) prune(o prune.Options) (done prune.Table) {
	d.t.Helper()
	if o.Slot = "s"; o.Tables == nil {
		o.Tables = []string{"public.outbox"}
	}
	o.Report = func(table prune.Table) { done = table }
	if err := prune.Run(d.t.Context(), d.config(), o); err != nil {
		d.t.Fatal(err)
	}
	return done
}

func (d *database) config() *pgx.ConnConfig {
	d.t.Helper()
	config, err := pgx.ParseConfig(d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	return config
}

func (d *database) exec(statements ...string) { d.t.Helper(); pgtest.Exec(d.t, d.url, statements...) }

func (d *database) count(query string) (n int) {
	d.t.Helper()
	if err := d.conn.QueryRow(d.t.Context(), query).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

// keys are those of the rows that are left.
func (d *database) keys() []string {
	d.t.Helper()
	rows, err := d.conn.Query(d.t.Context(), `SELECT aggregateid FROM outbox`)
	if err != nil {
		d.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func exec(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
