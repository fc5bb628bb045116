package replication

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

const insert = `INSERT INTO public.outbox (aggregatetype, aggregateid, type) VALUES ('order', '1', 'OrderCreated')`

// The first run makes everything, the second only looks; what is inserted in between is in the stream.
func TestFirstStart(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		cfg := Config{URL: url}
		first, steps := setupSteps(t, cfg, SetupOptions{})
		if !first.Created || !changed(steps) {
			t.Errorf("created %v, steps %v", first.Created, steps)
		}
		pgtest.Exec(t, url, insert)

		row := loadRow(t, url, first.Slot)
		slot, err := InspectSlot(t.Context(), connectSQL(t, url), first.Slot)
		if err != nil || slot == nil {
			t.Fatalf("slot %v, %v", slot, err)
		}
		if row.State != checkpoint.Ready || row.LSN.String() != slot.ConfirmedFlushLSN || row.SystemID != first.Server.SystemID {
			t.Errorf("row %+v, slot at %s", row, slot.ConfirmedFlushLSN)
		}

		second, steps := setupSteps(t, cfg, SetupOptions{})
		if second.Created || changed(steps) {
			t.Errorf("the second time: created %v, steps %v", second.Created, steps)
		}
		if diff := cmp.Diff(first.Tables, second.Tables); diff != "" || first.Fingerprint != second.Fingerprint || second.Fingerprint == "" {
			t.Errorf("fingerprint %s, then %s; tables %s", first.Fingerprint, second.Fingerprint, diff)
		}
		await(t, startPrepared(t, cfg, second), 'I', 1)
	})
}

// init says what it did; again, it changes nothing. run accepts what init made.
func TestInit(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		cfg := Config{URL: s.Database(t), Slot: slotName(t), Publication: "Own name"}
		checked := 0
		options := SetupOptions{Init: true, Check: func(table *Table) error {
			checked++
			return nil
		}}
		first, steps := setupSteps(t, cfg, options)
		if first.Slot != cfg.Slot || first.Publication != cfg.Publication || !first.Created {
			t.Errorf("prepared %+v", first)
		}
		want := []Step{
			{"table public.outbox created", true},
			{"schema walrelay created or brought up to date", true},
			{"row of slot " + cfg.Slot + " in walrelay.checkpoint created", true},
			{"publication Own name created", true},
			{"creating slot " + cfg.Slot + "; this waits for the write transactions that run, at most 1m0s", false},
		}
		if diff := cmp.Diff(want, steps[:len(steps)-1]); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		for _, again := range []bool{true, false} {
			options.Init = again
			if _, steps := setupSteps(t, cfg, options); changed(steps) || len(steps) != 5 {
				t.Errorf("again, init %v: %v", again, steps)
			}
		}
		if checked != 3 {
			t.Errorf("the mapping was checked %d times, want 3", checked)
		}
		pgtest.Exec(t, cfg.URL, insert)
		await(t, startPrepared(t, cfg, first), 'I', 1)
	})
}

func TestExistingRows(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		cfg := Config{URL: url}
		pgtest.Exec(t, url, insert)
		for range 2 { // an error that was not heard stays the same
			_, err := Setup(t.Context(), cfg, SetupOptions{})
			wantSetupError(t, err, "walrelay init --existing=skip")
			if !errors.Is(err, ErrExistingRows) {
				t.Errorf("%v is not ErrExistingRows", err)
			}
		}
		if slots := countSlots(t, url); slots != 0 {
			t.Errorf("%d slots are left; they hold back WAL for nothing", slots)
		}
		prepared, _ := setupSteps(t, cfg, SetupOptions{Init: true, Existing: SkipExisting})
		pgtest.Exec(t, url, strings.Replace(insert, "'1'", "'new'", 1))
		rows := await(t, startPrepared(t, cfg, prepared), 'I', 1)
		if !strings.Contains(string(rows[0].Data), "new") {
			t.Errorf("the first row sent is %q", rows[0].Data)
		}
	})
}

// A row whose transaction began before the slot and ends while the slot waits for it is neither lost nor overlooked:
// it counts as existing.
func TestRowCommittedWhileTheSlotWaits(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		writer := openTransaction(t, url)
		var group errgroup.Group
		group.Go(func() error {
			_, err := Setup(context.Background(), Config{URL: url}, SetupOptions{})
			return err
		})
		awaitSlots(t, url, 1)
		if _, err := writer.Exec(t.Context(), `COMMIT`); err != nil {
			t.Fatal(err)
		}
		if err := group.Wait(); !errors.Is(err, ErrExistingRows) {
			t.Errorf("got %v, want %v", err, ErrExistingRows)
		}
		awaitSlots(t, url, 0)
	})
}

// The look goes into the slot's snapshot: a row that the slot will send is no reason to refuse, and one that it will
// not send is a reason even if it is gone by now, since its event was never published.
func TestLookIsAsOfTheSlot(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		before, after string
		want          error
	}{
		{"inserted after the slot", `SELECT 1`, insert, nil},
		{"deleted after the slot", insert, `DELETE FROM public.outbox`, ErrExistingRows},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := withOutbox(t, pgtest.Shared(t, ""))
			conn := connectSQL(t, url)
			table, err := FindTable(t.Context(), conn, DefaultTable)
			if err != nil {
				t.Fatal(err)
			}
			replica, err := Connect(t.Context(), Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			defer replica.Close()
			pgtest.Exec(t, url, test.before)
			_, snapshot, err := replica.CreateSlot(t.Context(), slotName(t), false)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, url, test.after)
			s := &setup{conn: conn, Prepared: Prepared{Tables: []*Table{table}}}
			if err := s.lookForRows(t.Context(), snapshot); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// A transaction that does not end must not hold the start for ever, nor leave a slot that holds back WAL.
func TestSlotTimeout(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		cfg := Config{URL: url}
		writer := openTransaction(t, url)
		ctx, cancel := context.WithDeadline(t.Context(), soon())
		defer cancel()
		_, err := Setup(ctx, cfg, SetupOptions{SlotTimeout: 300 * time.Millisecond})
		if want := fmt.Sprintf("process %d", writer.PgConn().PID()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want the blocking %s named", err, want)
		}
		if class := Classify(err); class != Unreachable {
			t.Errorf("class %v: the next try may succeed", class)
		}
		awaitSlots(t, url, 0)
		if _, err := writer.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		setupSteps(t, cfg, SetupOptions{})
	})
}

func TestCancelledSetupLeavesNoSlot(t *testing.T) {
	t.Parallel()
	url := withOutbox(t, pgtest.Shared(t, ""))
	openTransaction(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error {
		_, err := Setup(ctx, Config{URL: url}, SetupOptions{})
		return err
	})
	awaitSlots(t, url, 1)
	cancel()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	awaitSlots(t, url, 0)
}

// All relays of a deployment may come at once.
func TestSetupAtTheSameTime(t *testing.T) {
	t.Parallel()
	url := withOutbox(t, pgtest.Shared(t, ""))
	const relays = 4
	var prepared [relays]*Prepared
	var group errgroup.Group
	for i := range relays {
		group.Go(func() (err error) {
			prepared[i], err = Setup(context.Background(), Config{URL: url}, SetupOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	created := 0
	for _, p := range prepared {
		if p.Created {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d of %d have created the slot", created, relays)
	}
}

// Killed between slot and row: run asks for init, init clears away and begins again.
func TestInterruptedSetup(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, s *pgtest.Server) {
		t.Parallel()
		url := withOutbox(t, s)
		cfg := Config{URL: url}
		setupSteps(t, cfg, SetupOptions{})
		pgtest.Exec(t, url, `UPDATE walrelay.checkpoint SET state = 'creating', lsn = '0/0'`, insert)

		_, err := Setup(t.Context(), cfg, SetupOptions{})
		wantSetupError(t, err, "walrelay init")
		_, err = Setup(t.Context(), cfg, SetupOptions{Init: true})
		if !errors.Is(err, ErrExistingRows) { // the old slot would have had the row, the new one has not
			t.Fatalf("got %v, want %v", err, ErrExistingRows)
		}
		pgtest.Exec(t, url, `TRUNCATE public.outbox`)
		prepared, _ := setupSteps(t, cfg, SetupOptions{}) // creating without a slot: run may go on
		pgtest.Exec(t, url, insert)
		await(t, startPrepared(t, cfg, prepared), 'I', 1)
	})
}

// Once something was relayed, nothing that is missing is made anew.
func TestMissingPiecesAreNotMadeAnew(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, sql, want string
	}{
		{"slot", `SELECT pg_drop_replication_slot(slot) FROM walrelay.checkpoint`, "walrelay repair"},
		{"publication", `DO $$ BEGIN EXECUTE format('DROP PUBLICATION %I', (SELECT pubname FROM pg_publication)); END $$`, "walrelay repair"},
		{"row", `DELETE FROM walrelay.checkpoint`, "walrelay slot adopt"},
		{"schema", `DROP SCHEMA walrelay CASCADE`, "walrelay slot adopt"},
		{"table", `DROP TABLE public.outbox`, "public.outbox does not exist"},
		{"table in the publication", `DO $$ BEGIN EXECUTE format('ALTER PUBLICATION %I DROP TABLE public.outbox',
			(SELECT pubname FROM pg_publication)); END $$`, "ADD TABLE"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := withOutbox(t, pgtest.Shared(t, ""))
			cfg := Config{URL: url}
			setupSteps(t, cfg, SetupOptions{})
			pgtest.Exec(t, url, test.sql)
			before := inventory(t, url)
			for _, init := range []bool{false, true} {
				_, err := Setup(t.Context(), cfg, SetupOptions{Init: init})
				wantSetupError(t, err, test.want)
				if diff := cmp.Diff(before, inventory(t, url)); diff != "" {
					t.Errorf("init %v changed something (-before +after):\n%s", init, diff)
				}
			}
		})
	}
}

// What a person must mend is found before anything is changed.
func TestSetupRefuses(t *testing.T) {
	const columns = `(aggregatetype text, aggregateid text, type text, payload text)`
	tests := []struct {
		name    string
		sql     []string // before
		options SetupOptions
		slot    string
		want    string
	}{
		{name: "absent table", want: "walrelay init creates it"},
		{name: "absent table, another may be meant", sql: []string{`CREATE TABLE public."Events" ` + columns}, want: "public.Events"},
		{name: "init, another may be meant", sql: []string{`CREATE TABLE public."Events" ` + columns},
			options: SetupOptions{Init: true}, want: "public.Events"},
		{name: "init, in capital letters", sql: []string{`CREATE TABLE public.Events (id int)`},
			options: SetupOptions{Init: true, Tables: []string{"public.Events"}}, want: "case included; these may be meant: public.events"},
		{name: "init, no such schema", options: SetupOptions{Init: true, Tables: []string{"nowhere.outbox"}}, want: `CREATE SCHEMA "nowhere"`},
		{name: "one of two absent", sql: []string{`CREATE TABLE public.one (id int)`},
			options: SetupOptions{Tables: []string{"public.one", "public.two"}}, want: "public.two does not exist"},
		{name: "both absent", sql: []string{`CREATE TABLE public.Two ` + columns},
			options: SetupOptions{Tables: []string{"public.One", "public.TWO"}}, want: "2 outbox tables cannot be used: outbox table public.One does not exist"},
		{name: "unlogged table", sql: []string{`CREATE UNLOGGED TABLE public.outbox ` + columns}, want: "SET LOGGED"},
		{name: "mapping", sql: []string{`CREATE TABLE public.outbox (id int)`},
			options: SetupOptions{Check: func(*Table) error { return &SetupError{Problem: "no column payload"} }}, want: "no column payload"},
		{name: "init, mapping does not fit the new table",
			options: SetupOptions{Init: true, Check: func(*Table) error { return &SetupError{Problem: "no column event"} }}, want: "no column event"},
		{name: "slot name", sql: []string{`CREATE TABLE public.outbox ` + columns}, slot: "Not-Allowed", want: "a-z, 0-9 and _"},
		{name: "publication without slot", sql: []string{`CREATE TABLE public.outbox ` + columns,
			createPublicationSQL("p", []string{"public.outbox"})}, want: "walrelay init"},
		{name: "init, publication that will not do", sql: []string{`CREATE TABLE public.outbox ` + columns,
			`CREATE PUBLICATION p FOR TABLE public.outbox WITH (publish = 'delete')`},
			options: SetupOptions{Init: true}, want: "ALTER PUBLICATION"},
		{name: "neighbour's publication of all tables", sql: []string{`CREATE TABLE public.outbox ` + columns,
			`CREATE PUBLICATION theirs FOR ALL TABLES`, otherSlot}, want: "CREATE TABLE IF NOT EXISTS walrelay.checkpoint"},
		{name: "init, neighbour's publication of all tables", sql: []string{`CREATE PUBLICATION theirs FOR ALL TABLES`, otherSlot},
			options: SetupOptions{Init: true}, want: `CREATE TABLE IF NOT EXISTS "public"."outbox"`},
	}
	t.Parallel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Shared(t, "").Database(t)
			pgtest.Exec(t, url, test.sql...)
			before := inventory(t, url)
			_, err := Setup(t.Context(), Config{URL: url, Slot: test.slot, Publication: "p"}, test.options)
			if setup := wantSetupError(t, err, test.want); strings.Contains(setup.Error(), "\n") {
				t.Errorf("more than one line: %v", setup)
			}
			if diff := cmp.Diff(before, inventory(t, url)); diff != "" {
				t.Errorf("something was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// otherSlot makes a slot that may be a subscriber's, with a name of the database's.
const otherSlot = `SELECT pg_create_logical_replication_slot('of_' || oid, 'pgoutput') FROM pg_database WHERE datname = current_database()`

// A publication of all tables that nobody can be reading is no obstacle; one that is read through a standby may be.
func TestPublicationWithoutSubscribers(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "16"} {
		server := pgtest.Start(t, pgtest.Options{Version: version})
		pgtest.Exec(t, server.URL("postgres"), `CREATE PUBLICATION theirs FOR ALL TABLES`)
		alone := server.Database(t)
		pgtest.Exec(t, alone, `CREATE PUBLICATION theirs FOR ALL TABLES`)
		if _, err := Setup(t.Context(), Config{URL: alone, Slot: slotName(t)}, SetupOptions{Init: true}); err != nil {
			t.Errorf("version %s, a server without standbys: %v", version, err)
		}
		cfg := Config{URL: server.URL("postgres"), Slot: slotName(t)}
		pgtest.Exec(t, cfg.URL, `SELECT pg_create_physical_replication_slot('standby')`)
		_, err := Setup(t.Context(), cfg, SetupOptions{Init: true})
		if version >= "16" {
			wantSetupError(t, err, "there may be some: readers of a standby; if no Postgres subscription reads it (Debezium is none), add --no-subscribers theirs")
			_, err = Setup(t.Context(), cfg, SetupOptions{Init: true, NoSubscribers: []string{"theirs"}})
		}
		if err != nil {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

// The subscribers' SQL of the refusal is enough: with it they survive what the script does here.
func TestNeighboursSubscriber(t *testing.T) {
	t.Parallel()
	publisher := pgtest.Start(t, pgtest.Options{})
	url, subscriber := publisher.URL("postgres"), pgtest.Shared(t, "").Database(t)
	subscription := slotName(t)
	pgtest.Exec(t, url, `CREATE PUBLICATION theirs FOR ALL TABLES`)
	pgtest.Exec(t, subscriber, fmt.Sprintf(`CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION theirs`, subscription, url))
	t.Cleanup(func() { pgtest.Exec(t, subscriber, `DROP SUBSCRIPTION `+subscription) })

	tables := []string{"public.outbox"}
	_, err := Setup(t.Context(), Config{URL: url}, SetupOptions{Init: true})
	var steps []string
	for len(steps) < 2 { // first the outbox, then walrelay's own tables
		setup := wantSetupError(t, err, "theirs")
		_, sql, _ := strings.Cut(setup.Remedy, "run: ")
		sql, _, _ = strings.Cut(sql, " and then here")
		steps = append(steps, sql)
		pgtest.Exec(t, subscriber, sql)
		if len(steps) == 1 {
			pgtest.Exec(t, url, sql)
		}
		_, err = Setup(t.Context(), Config{URL: url}, SetupOptions{Init: true})
	}
	script, err := Script{Slot: slotName(t), Publication: "p", Tables: tables}.SQL()
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, script, insert)

	conn := connectSQL(t, url)
	var end string
	if err := conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&end); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // the subscriber has applied everything instead of stopping
		var passed bool
		err := conn.QueryRow(t.Context(), `SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots
			WHERE slot_name = $1`, subscription, end).Scan(&passed)
		return err == nil && passed
	})
}

// A role that lacks a privilege is told which one, and whom to ask.
func TestPrivileges(t *testing.T) {
	const mayCreate = `DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO ROLE', current_database()); END $$`
	publication := createPublicationSQL("p", []string{"public.outbox"})
	tests := []struct {
		name, attributes string
		sql              []string // ROLE is the role
		want             string
	}{
		{"no REPLICATION", "", nil, "REPLICATION"},
		{"no CREATE on the database", "REPLICATION", nil, "walrelay init --sql"},
		{"not the table's owner", "REPLICATION", []string{mayCreate}, "walrelay init --sql"},
		{"no SELECT", "REPLICATION", []string{mayCreate, publication}, `GRANT SELECT ON "public"."outbox"`},
		{"row security", "REPLICATION", []string{mayCreate, publication, insert, `GRANT SELECT ON public.outbox TO ROLE`,
			`ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY`}, "row-level security"},
	}
	t.Parallel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := withOutbox(t, pgtest.Shared(t, ""))
			asRelay, role := asRole(t, url, test.attributes)
			for _, sql := range test.sql {
				pgtest.Exec(t, url, strings.ReplaceAll(sql, "ROLE", role))
			}
			_, err := Setup(t.Context(), Config{URL: asRelay, Publication: "p"}, SetupOptions{Init: true})
			if err == nil || Classify(err) != Stop || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if slots := countSlots(t, url); slots != 0 {
				t.Errorf("%d slots are left", slots)
			}
		})
	}
}

// A newer walrelay migrates by init, never by run.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	url := withOutbox(t, pgtest.Shared(t, ""))
	cfg := Config{URL: url}
	setupSteps(t, cfg, SetupOptions{})
	pgtest.Exec(t, url, `DROP TABLE walrelay.schema_version`)
	_, err := Setup(t.Context(), cfg, SetupOptions{})
	wantSetupError(t, err, "run walrelay init")
}

func withOutbox(t *testing.T, s *pgtest.Server) (url string) {
	t.Helper()
	url = s.Database(t)
	pgtest.Exec(t, url, migrations.OutboxSQL("public", "outbox"))
	return url
}

// setupSteps is a Setup that must succeed, with its steps.
func setupSteps(t *testing.T, cfg Config, o SetupOptions) (*Prepared, []Step) {
	t.Helper()
	var steps []Step
	o.Report = func(s Step) { steps = append(steps, s) }
	prepared, err := Setup(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return prepared, steps
}

func changed(steps []Step) bool {
	for _, step := range steps {
		if step.Changed {
			return true
		}
	}
	return false
}

func startPrepared(t *testing.T, cfg Config, p *Prepared) *Stream {
	t.Helper()
	conn, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := conn.Start(t.Context(), p.Slot, p.Publication)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Abort)
	return stream
}

func wantSetupError(t *testing.T, err error, text string) *SetupError {
	t.Helper()
	var setup *SetupError
	if !errors.As(err, &setup) || !strings.Contains(setup.Error(), text) {
		t.Fatalf("got %v, want a SetupError with %q", err, text)
	}
	return setup
}

func connectSQL(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// asRole makes a role with the given attributes. url is for connections as that role.
func asRole(t *testing.T, admin, attributes string) (url, role string) {
	t.Helper()
	role = "role_" + strings.ToLower(rand.Text()[:12])
	pgtest.Exec(t, admin, `CREATE ROLE `+role+` LOGIN `+attributes)
	t.Cleanup(func() { pgtest.Exec(t, admin, `DROP OWNED BY `+role+` CASCADE`, `DROP ROLE `+role) })
	return strings.Replace(admin, "postgres://postgres@", "postgres://"+role+"@", 1), role
}

// openTransaction has inserted a row and not committed. It ends with the test.
func openTransaction(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := connectSQL(t, url)
	if _, err := conn.Exec(t.Context(), `BEGIN; `+insert); err != nil {
		t.Fatal(err)
	}
	return conn
}

func soon() time.Time { return time.Now().Add(20 * time.Second) }

func until(t *testing.T, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := soon(); !condition(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
	}
}

func countSlots(t *testing.T, url string) (n int) {
	t.Helper()
	err := connectSQL(t, url).QueryRow(t.Context(), `SELECT count(*) FROM pg_replication_slots WHERE database = current_database()`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func awaitSlots(t *testing.T, url string, want int) {
	t.Helper()
	until(t, func() bool { return countSlots(t, url) == want })
}

// inventory is what Setup could have made.
func inventory(t *testing.T, url string) map[string]string {
	t.Helper()
	found := map[string]string{}
	conn := connectSQL(t, url)
	rows, err := conn.Query(t.Context(), `
		SELECT 'slot', slot_name::text FROM pg_replication_slots WHERE database = current_database()
		UNION ALL SELECT 'publication ' || oid, pubname::text FROM pg_publication
		UNION ALL SELECT 'table ' || c.oid, oid::regclass::text FROM pg_class c
		WHERE relkind = 'r' AND relnamespace <> ALL (ARRAY['pg_catalog', 'information_schema']::regnamespace[])`)
	if err != nil {
		t.Fatal(err)
	}
	var key, value string
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error { found[key] = value; return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}

func loadRow(t *testing.T, url, slot string) checkpoint.Row {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	store := checkpoint.NewStore(checkpoint.Always(config))
	defer store.Close(context.Background())
	row, found, err := store.Load(t.Context(), slot)
	if err != nil || !found {
		t.Fatalf("row of %s: found %v, %v", slot, found, err)
	}
	return row
}
