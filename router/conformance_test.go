package router

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/lsn"
)

// vector is one line of vectors.jsonl: what Debezium made of a row, or how it failed. Vectors of one group shared a table
// and a run of the connector.
type vector struct {
	Case, Group, SQL, Publication string
	DDL                           []string
	Options                       map[string]string
	Records                       []recorded
	TaskState                     string `json:"task_state"`
}

type recorded struct {
	Topic       string
	Partition   int32
	Key         *[]byte `json:"key_b64"`
	Value       *[]byte `json:"value_b64"`
	Headers     []recordedHeader
	TimestampMs int64 `json:"timestamp_ms"`
}

type recordedHeader struct {
	K string
	V *[]byte `json:"v_b64"`
}

// outcome is what walrelay makes of a vector.
type outcome struct {
	records []Message         // that are published, in order
	rows    []map[string]cell // of the records
	poison  error             // of the first row that is poison
	refused error             // at start, or when the shape of the table changed
}

// TestDebeziumConformance routes the rows of every vector, as a real Postgres decodes them, and compares with what
// Debezium published. A difference must be explained by a rule of the table deviations.
func TestDebeziumConformance(t *testing.T) {
	groups := readVectors(t)
	db := connectSession(t, pgtest.Shared(t, "").Database(t))
	var total, equal, deviating, unexplained int
	reasons := map[string]int{}
	for _, group := range groups {
		outcomes := runGroup(t, db, group)
		for i := range group {
			total++
			v := comparison{vector: &group[i], outcome: outcomes[i], group: group, index: i}
			diff := v.diff()
			if diff == "" {
				equal++
				continue
			}
			if reason := v.explain(); reason != "" {
				deviating++
				reasons[reason]++
				continue
			}
			unexplained++
			t.Errorf("%s: refused: %v, poison: %v\n%s", group[i].Case, outcomes[i].refused, outcomes[i].poison, diff)
		}
	}
	for _, d := range deviations {
		t.Logf("%3d × %s", reasons[d.reason], d.reason)
	}
	fmt.Printf("conformance: %d vectors, %d equal, %d deviations, %d unexplained\n", total, equal, deviating, unexplained)
}

func readVectors(t *testing.T) (groups [][]vector) {
	path := "testdata/vectors.jsonl"
	if other := os.Getenv("WALRELAY_VECTORS"); other != "" {
		path = other
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if n := len(groups); n > 0 && groups[n-1][0].Group == v.Group {
			groups[n-1] = append(groups[n-1], v)
		} else {
			groups = append(groups, []vector{v})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return groups
}

// database is a session with the settings of the replication session.
type database struct {
	t    *testing.T
	conn *pgconn.PgConn
}

func connectSession(t *testing.T, url string) database {
	conn, err := pgconn.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	db := database{t, conn}
	db.exec(`SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 3; SET bytea_output = 'hex'; SET client_encoding = 'UTF8'`)
	return db
}

func (db database) exec(sql string) {
	db.t.Helper()
	if err := db.try(sql); err != nil {
		db.t.Fatalf("%s: %v", sql, err)
	}
}

func (db database) try(sql string) error {
	_, err := db.conn.Exec(context.Background(), sql).ReadAll()
	return err
}

func (db database) query(sql string) [][][]byte {
	db.t.Helper()
	results, err := db.conn.Exec(context.Background(), sql).ReadAll()
	if err != nil {
		db.t.Fatalf("%s: %v", sql, err)
	}
	return results[0].Rows
}

// changes takes the frames that pgoutput made since the last call.
func (db database) changes() (frames [][]byte) {
	result := db.conn.ExecParams(context.Background(), `SELECT data FROM pg_logical_slot_get_binary_changes(
		'conformance', NULL, NULL, 'proto_version', '1', 'publication_names', 'conformance', 'messages', 'true')`,
		nil, nil, nil, []int16{1}).Read()
	if result.Err != nil {
		db.t.Fatal(result.Err)
	}
	for _, row := range result.Rows {
		frames = append(frames, row[0])
	}
	return frames
}

// catalog reads what the stream does not tell.
func (db database) catalog(table uint32) Catalog {
	known := Catalog{NotNull: map[string]bool{}, Types: map[uint32]TypeInfo{}}
	for _, row := range db.query(fmt.Sprintf(`SELECT attname FROM pg_attribute WHERE attrelid = %d AND attnotnull AND attnum > 0`, table)) {
		known.NotNull[string(row[0])] = true
	}
	for _, row := range db.query(`SELECT oid, typbasetype, typtypmod, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END,
		(SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = pg_type.oid)
		FROM pg_type WHERE oid >= 16384`) {
		var oid uint32
		var info TypeInfo
		fmt.Sscan(fmt.Sprintf("%s %s %s %s", row[0], row[1], row[2], row[3]), &oid, &info.Base, &info.BaseModifier, &info.Element)
		if row[4] != nil {
			info.Enum = strings.Split(string(row[4]), ",")
		}
		known.Types[oid] = info
	}
	return known
}

// runGroup makes the group's table, publication and slot, runs its rows one by one and routes what comes out.
func runGroup(t *testing.T, db database, group []vector) []outcome {
	t.Helper()
	first := group[0]
	db.exec(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database();
		DROP PUBLICATION IF EXISTS conformance; DROP TABLE IF EXISTS outbox, "OutboxEvent" CASCADE`)
	for _, sql := range first.DDL {
		db.exec(sql)
	}
	db.exec(`CREATE PUBLICATION conformance FOR ALL TABLES WITH (` + first.Publication + `)`)
	db.exec(`SELECT pg_create_logical_replication_slot('conformance', 'pgoutput')`)
	s := session{db: db, decoder: decoder.New(), routes: map[*decoder.Relation]*Route{}, tables: tableList(first)}
	s.config, s.refused = configOf(first.Options)
	outcomes := make([]outcome, len(group))
	for i, v := range group {
		if err := db.try(v.SQL); err != nil {
			t.Logf("%s: %v", v.Case, err)
		}
		outcomes[i] = s.run(db.changes())
	}
	return outcomes
}

// tableList reads table.include.list; the common options name the one table of the group.
func tableList(v vector) *regexp.Regexp {
	list := v.Options["table.include.list"]
	if list == "" {
		list = "public.outbox"
	}
	return regexp.MustCompile(`^(?:` + strings.ReplaceAll(list, ",", "|") + `)$`)
}

// configOf adds the options that all vectors have in common and translates them as import-debezium does.
func configOf(options map[string]string) (Config, error) {
	all := map[string]string{
		"transforms": "outbox", "transforms.outbox.type": eventRouterClass,
		"key.converter": stringConverter, "value.converter": stringConverter, "topic.prefix": "dbz",
	}
	for name, value := range options {
		all[name] = value
	}
	config, findings := FromDebezium(all)
	for _, f := range findings {
		if f.Answer == Invalid || f.Answer == Unknown {
			return config, fmt.Errorf("%s: %s", f.Property, f.Note)
		}
	}
	config.Headers.Position = "off"
	return config, config.Validate()
}

// partitions is how many partitions every topic of the recording had.
const partitions = 6

// session routes the frames of one group.
type session struct {
	db      database
	decoder *decoder.Decoder
	config  Config
	routes  map[*decoder.Relation]*Route
	tables  *regexp.Regexp
	refused error
}

func (s *session) run(frames [][]byte) (o outcome) {
	o.refused = s.refused
	var ordinal uint32
	for _, frame := range frames {
		kind, err := s.decoder.Decode(frame)
		if err != nil {
			s.db.t.Fatal(err)
		}
		if kind != decoder.KindInsert || s.refused != nil {
			continue
		}
		row := &s.decoder.Row
		if !s.tables.MatchString(row.Relation.Namespace + "." + row.Relation.Name) {
			continue // a relation of no source: the relay stops here, so nothing is published
		}
		ordinal++
		s.routeRow(row, ordinal, &o)
	}
	return o
}

func (s *session) routeRow(row *decoder.Row, ordinal uint32, o *outcome) {
	route := s.routes[row.Relation]
	if route == nil {
		var err error
		if route, err = Bind(s.config, row.Relation, s.db.catalog(row.Relation.ID)); err != nil {
			s.refused, o.refused = err, err
			return
		}
		route.Bounds = Bounds{Newest: time.Now().Add(55 * time.Minute).UnixMilli()}
		s.routes[row.Relation] = route
	}
	var m Message
	id := lsn.Identity{Commit: s.decoder.Begin.Commit, Time: s.decoder.Begin.Time, Ordinal: ordinal}
	_, err := route.Route(row, id, &m)
	if err == nil && m.Partition >= partitions {
		err = fmt.Errorf("partition %d of %d", m.Partition, partitions) // the producer's poison
	}
	if err != nil {
		if o.poison == nil {
			o.poison = err
		}
		return
	}
	o.records = append(o.records, m)
	cells := map[string]cell{}
	for i, column := range row.Columns {
		cells[row.Relation.Columns[i].Name] = cell{text: string(column.Data), null: column.Kind == decoder.ColumnNull}
	}
	o.rows = append(o.rows, cells)
}

// cell is one value of a row, as Postgres sent it.
type cell struct {
	text string
	null bool
}

// comparison is one vector beside what walrelay makes of it.
type comparison struct {
	vector  *vector
	outcome outcome
	group   []vector
	index   int
}

// wire is a record as both sides are compared.
type wire struct {
	Topic, Key, Value, Headers string
	Partition                  string
	Time                       string
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// bytesOf keeps null and empty apart.
func bytesOf(b *[]byte) []byte {
	if b == nil {
		return nil
	}
	return notNil(*b)
}

// runNames are the names that change from run to run in the name of an envelope's schema.
var runNames = regexp.MustCompile(`dbz\d+\.public\.ob\d+`)

func (c *comparison) expected() (wires []wire) {
	for i, r := range c.vector.Records {
		if !hasID(r.Headers) {
			continue // made by the connector, not by the EventRouter: heartbeats, logical messages
		}
		w := wire{Topic: r.Topic, Key: show(bytesOf(r.Key)), Partition: "by key"}
		w.Value = show(bytesOf(r.Value))
		if r.Value != nil {
			w.Value = show(notNil(runNames.ReplaceAll(*r.Value, []byte("dbz.public.outbox"))))
		}
		for _, h := range r.Headers {
			w.Headers += h.K + "=" + c.maskID(show(bytesOf(h.V))) + " "
		}
		if i < len(c.outcome.records) {
			if c.outcome.records[i].Partition >= 0 {
				w.Partition = fmt.Sprint(r.Partition)
			}
			if c.timed(i) {
				w.Time = fmt.Sprint(r.TimestampMs)
			}
		}
		wires = append(wires, w)
	}
	return wires
}

func (c *comparison) actual() (wires []wire) {
	for i, m := range c.outcome.records {
		w := wire{Topic: m.Topic, Key: show(m.Key), Value: show(m.Value), Partition: "by key"}
		for _, h := range m.Headers {
			w.Headers += h.Name + "=" + c.maskID(show(h.Value)) + " "
		}
		if m.Partition >= 0 {
			w.Partition = fmt.Sprint(m.Partition)
		}
		if c.timed(i) {
			w.Time = fmt.Sprint(m.Time)
		}
		wires = append(wires, w)
	}
	return wires
}

func hasID(headers []recordedHeader) bool {
	for _, h := range headers {
		if h.K == "id" {
			return true
		}
	}
	return false
}

// maskID hides ids that Postgres drew at random.
func (c *comparison) maskID(value string) string {
	if strings.Contains(c.vector.SQL, "gen_random_uuid()") && !strings.Contains(c.vector.SQL, strings.Trim(value, `"`)) {
		return "random"
	}
	return value
}

// timed tells whether the record's timestamp is the column's, so that it can be compared.
func (c *comparison) timed(i int) bool {
	return c.option("table.field.event.timestamp") != "" && !c.timeIsCommit(i)
}

func (c *comparison) timeIsCommit(i int) bool {
	age := time.Since(time.UnixMilli(c.outcome.records[i].Time))
	return age < time.Hour && age > -time.Hour
}

func (c *comparison) option(name string) string { return c.vector.Options["transforms.outbox."+name] }

// diff is empty where both sides published the same and neither failed.
func (c *comparison) diff() string {
	if diff := cmp.Diff(c.expected(), c.actual()); diff != "" {
		return diff
	}
	if c.outcome.refused != nil || c.outcome.poison != nil {
		return "nothing is published on both sides, here by a failure"
	}
	return ""
}
