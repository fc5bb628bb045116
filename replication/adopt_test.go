package replication

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// theirs is a program that has used a slot until now.
type theirs struct {
	url, slot string
	conn      *pgx.Conn
	stream    *Stream
}

func startTheirs(t *testing.T, s *pgtest.Server) *theirs {
	t.Helper()
	o := &theirs{url: withOutbox(t, s)}
	o.conn, o.slot = connectSQL(t, o.url), fmt.Sprintf("theirs_%x", time.Now().UnixNano())
	pgtest.Exec(t, o.url, `CREATE TABLE customers (id int)`, `CREATE PUBLICATION theirs FOR ALL TABLES`,
		fmt.Sprintf(`SELECT pg_create_logical_replication_slot('%s', 'pgoutput')`, o.slot))
	o.begin(t)
	return o
}

func (o *theirs) begin(t *testing.T) {
	t.Helper()
	o.stream = startPrepared(t, Config{URL: o.url}, &Prepared{Slot: o.slot, Publication: "theirs"})
}

// stop ends it as a crash would.
func (o *theirs) stop(t *testing.T) {
	t.Helper()
	o.stream.Abort()
	until(t, func() bool {
		holder, err := Holder(t.Context(), o.conn, o.slot)
		return err == nil && holder == ""
	})
}

// publish commits a row, takes the next transaction and confirms it.
func (o *theirs) publish(t *testing.T) {
	t.Helper()
	pgtest.Exec(t, o.url, insert)
	commit := await(t, o.stream, 'C', 1)[0].Data
	end := lsn.End(binary.BigEndian.Uint64(commit[10:])) // behind kind, flags and the commit record's start
	if err := o.stream.SendStatus(end, false); err != nil {
		t.Fatal(err)
	}
}

func (o *theirs) position(t *testing.T) lsn.End {
	t.Helper()
	return o.ask(t, `SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '`+o.slot+`'`)
}

func (o *theirs) ask(t *testing.T, sql string) lsn.End {
	t.Helper()
	var text string
	if err := o.conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	end, err := lsn.ParseEnd(text)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func (o *theirs) passed(t *testing.T) bool {
	t.Helper()
	p, err := FindPublication(t.Context(), o.conn, version(t, o.conn), "ours")
	if err != nil || p == nil {
		t.Fatalf("publication %v, %v", p, err)
	}
	passed, err := Passed(t.Context(), o.conn, o.slot, p)
	if err != nil {
		t.Fatal(err)
	}
	return passed
}

// pass lets the slot pass the publication, with nobody who reads it.
func (o *theirs) pass(t *testing.T) {
	t.Helper()
	until(t, func() bool {
		pgtest.Exec(t, o.url, insert, `CHECKPOINT`, `SELECT pg_replication_slot_advance('`+o.slot+`', pg_current_wal_lsn())`)
		return o.passed(t)
	})
}

func (o *theirs) config() Config { return Config{URL: o.url, Slot: o.slot, Publication: "ours"} }

func (o *theirs) adopt(t *testing.T, options AdoptOptions) error {
	t.Helper()
	options.IDColumns = map[string]string{DefaultTable: "id"}
	_, err := Adopt(t.Context(), o.config(), options)
	return err
}

// The whole way: publication, the slot passes it, the other one stops, the row; and the stream goes on where that one
// had confirmed.
func TestAdopt(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		o := startTheirs(t, s)
		o.publish(t)
		before := o.ask(t, `SELECT pg_current_wal_insert_lsn()::text`)
		setup := wantSetupError(t, o.adopt(t, AdoptOptions{}), "is not past publication ours yet")
		if !strings.Contains(setup.Problem, "application walrelay, user postgres, from 127.0.0.1") || !strings.Contains(setup.Remedy, "leave that program running") {
			t.Errorf("got %v", setup)
		}
		o.publish(t)
		o.stop(t)
		wantSetupError(t, o.adopt(t, AdoptOptions{}), "start the program again")
		o.begin(t)

		until(t, func() bool {
			pgtest.Exec(t, o.url, `CHECKPOINT`) // which tells the slot what transactions run
			o.publish(t)
			return o.passed(t)
		})
		if o.position(t) <= before {
			t.Errorf("the slot is called past a publication made behind %v, at %v", before, o.position(t))
		}
		wantSetupError(t, o.adopt(t, AdoptOptions{}), "stop that program")
		pgtest.Exec(t, o.url, insert, insert) // which that one has not confirmed
		o.stop(t)
		position := o.position(t)
		if err := o.adopt(t, AdoptOptions{MatchByID: true}); err != nil {
			t.Fatal(err)
		}
		row := loadRow(t, o.url, o.slot)
		if row.State != checkpoint.Ready || row.LSN != position || !row.MatchByID || row.Epoch != 0 {
			t.Errorf("row %+v, the slot at %v", row, position)
		}

		prepared, steps := setupSteps(t, o.config(), SetupOptions{})
		if changed(steps) || prepared.Created {
			t.Errorf("run begins anew: %v", steps)
		}
		await(t, startPrepared(t, o.config(), prepared), 'I', 2)
	})
}

// A row that is there already: another program may have gone on from the slot meanwhile, or the Kafka cluster is another.
func TestAdoptAgain(t *testing.T) {
	t.Parallel()
	o := startTheirs(t, pgtest.Shared(t, ""))
	o.stop(t)
	pgtest.Exec(t, o.url, `CREATE PUBLICATION ours FOR TABLE outbox`)
	o.pass(t)
	adopt := func(options AdoptOptions) error { return o.adopt(t, options) }
	if err := adopt(AdoptOptions{}); err != nil {
		t.Fatal(err)
	}
	wantSetupError(t, adopt(AdoptOptions{}), "there is nothing to adopt")
	o.begin(t)
	o.publish(t)
	wantSetupError(t, adopt(AdoptOptions{MatchByID: true}), "stop that program")
	o.stop(t)
	if err := adopt(AdoptOptions{MatchByID: true}); err != nil {
		t.Fatal(err)
	}
	if row := loadRow(t, o.url, o.slot); row.LSN != o.position(t) || !row.MatchByID {
		t.Errorf("row %+v, the slot at %v", row, o.position(t))
	}

	pgtest.Exec(t, o.url, `UPDATE walrelay.checkpoint SET system_id = '4711', kafka_cluster_id = 'main'`)
	if err := adopt(AdoptOptions{}); err != nil {
		t.Fatal(err)
	}
	if row := loadRow(t, o.url, o.slot); row.SystemID == "4711" || row.KafkaClusterID != "main" || row.MatchByID {
		t.Errorf("row %+v", row)
	}
	if err := adopt(AdoptOptions{NewKafkaCluster: true}); err != nil {
		t.Fatal(err)
	}
	if row := loadRow(t, o.url, o.slot); row.KafkaClusterID != "" {
		t.Errorf("row %+v", row)
	}
	pgtest.Exec(t, o.url, `DROP PUBLICATION ours`)
	wantSetupError(t, adopt(AdoptOptions{MatchByID: true}), "walrelay repair")
}

// What cannot be taken over is refused, and nothing is changed.
func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql string
		options   AdoptOptions
		want      string
	}{
		{"no slot", `SELECT pg_drop_replication_slot('%[1]s')`, AdoptOptions{}, "slot %[1]s does not exist; name the slot"},
		{"another plugin", `SELECT pg_drop_replication_slot('%[1]s'); SELECT pg_create_logical_replication_slot('%[1]s', 'test_decoding')`,
			AdoptOptions{}, "uses the plugin test_decoding, not pgoutput"},
		{"a subscriber that has no table walrelay.checkpoint", `SELECT pg_create_logical_replication_slot('%[1]s_2', 'pgoutput')`,
			AdoptOptions{}, "publication theirs would send the new table walrelay.checkpoint to its subscribers, which do not have it and would stop; " +
				"there may be some: slot %[1]s_2; if no Postgres subscription reads it (Debezium is none), add --no-subscribers theirs"},
		{"no table", `DROP TABLE outbox`, AdoptOptions{}, "outbox table public.outbox does not exist"},
		{"publication with other tables", `CREATE PUBLICATION ours FOR TABLE outbox, customers`, AdoptOptions{}, "has other tables too: public.customers; a row"},
		{"publication of all tables", `CREATE PUBLICATION ours FOR ALL TABLES`, AdoptOptions{}, "has other tables too: public.customers"},
		{"publication without the table", `CREATE PUBLICATION ours`, AdoptOptions{}, "does not have table public.outbox"},
		{"publication without inserts", `CREATE PUBLICATION ours FOR TABLE outbox WITH (publish = 'update')`, AdoptOptions{}, "does not publish inserts"},
		{"ids that are not unique", `ALTER TABLE outbox DROP CONSTRAINT outbox_pkey`, AdoptOptions{MatchByID: true}, "column id of table public.outbox has no unique index"},
		{"ids unique in part", `ALTER TABLE outbox DROP CONSTRAINT outbox_pkey; CREATE UNIQUE INDEX ON outbox (id) WHERE payload IS NULL`,
			AdoptOptions{MatchByID: true}, "has no unique index"},
		{"ids unique with another column", `ALTER TABLE outbox DROP CONSTRAINT outbox_pkey; CREATE UNIQUE INDEX ON outbox (id, type)`,
			AdoptOptions{MatchByID: true}, "has no unique index"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := startTheirs(t, pgtest.Shared(t, ""))
			o.stop(t)
			for statement := range strings.SplitSeq(c.sql, ";") {
				pgtest.Exec(t, o.url, strings.ReplaceAll(statement, "%[1]s", o.slot))
			}
			before := inventory(t, o.url)
			wantSetupError(t, o.adopt(t, c.options), strings.ReplaceAll(c.want, "%[1]s", o.slot))
			for key := range inventory(t, o.url) {
				if before[key] == "" {
					t.Errorf("it made %s", key)
				}
			}
		})
	}
}

// A table that is in the publication and ignored is no obstacle, nor is a partitioned table with uuids.
func TestAdoptAllows(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`CREATE PUBLICATION ours FOR TABLE outbox, customers`,
		`DROP TABLE outbox; CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload text, made int, PRIMARY KEY (id, made))
			PARTITION BY RANGE (made); CREATE TABLE part PARTITION OF outbox DEFAULT; ALTER TABLE outbox ALTER made SET DEFAULT 1,
			ALTER id SET DEFAULT gen_random_uuid(); CREATE PUBLICATION ours FOR TABLE outbox WITH (publish_via_partition_root = true)`,
	} {
		o := startTheirs(t, pgtest.Shared(t, ""))
		o.stop(t)
		for statement := range strings.SplitSeq(sql, ";") {
			pgtest.Exec(t, o.url, statement)
		}
		o.pass(t)
		err := o.adopt(t, AdoptOptions{MatchByID: true, Ignore: []string{"public.customers"}})
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
