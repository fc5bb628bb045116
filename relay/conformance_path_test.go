package relay

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// path is the way from a row to a record: a replication connection, the flow, a producer. Only what Setup makes is made by
// hand, since publications and tables are the vectors' own.
type path struct {
	t        *testing.T
	url      string
	db       *pgconn.PgConn
	relay    *Relay // for its catalog
	producer *kafka.Producer
	brokers  []string
}

const deadLetters = "conformance.dead-letters"

// delivered is a message that the producer has taken.
type delivered struct {
	router.Message
	explicit  bool  // the message named its partition
	partition int32 // where it is
	row       map[string]cell
}

// cell is one value of a row, as Postgres sent it.
type cell struct {
	text string
	null bool
}

func newPath(t *testing.T, s *pgtest.Server) *path {
	t.Helper()
	p := &path{t: t, url: s.Database(t), brokers: kafkatest.Fake(t).ListenAddrs()}
	db, err := pgconn.Connect(t.Context(), p.url)
	if err != nil {
		t.Fatal(err)
	}
	p.db = db
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	p.relay = New(Config{Postgres: replication.Config{URL: p.url}}, nil, prometheus.NewRegistry())
	p.producer = kafka.New(kafka.Config{Brokers: p.brokers}, nil)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.producer.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *path) try(sql string) ([]*pgconn.Result, error) {
	return p.db.Exec(p.t.Context(), sql).ReadAll()
}

func (p *path) exec(sql string) []*pgconn.Result {
	p.t.Helper()
	results, err := p.try(sql)
	if err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	return results
}

// position is the end of the log.
func (p *path) position() lsn.End {
	p.t.Helper()
	end, err := lsn.ParseEnd(string(p.exec("SELECT pg_current_wal_insert_lsn()")[0].Rows[0][0]))
	if err != nil {
		p.t.Fatal(err)
	}
	return end
}

const (
	usersSchemas = `nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'`
	// cleanSQL removes what a group has made.
	cleanSQL = `DROP PUBLICATION IF EXISTS conformance; DO $$ BEGIN
		EXECUTE (SELECT 'DROP SCHEMA ' || string_agg(quote_ident(nspname), ', ') || ' CASCADE' FROM pg_namespace WHERE ` + usersSchemas + `);
		END $$; CREATE SCHEMA public`
)

// run makes the group's table, publication and slot, runs its rows one by one and relays what comes out.
func (p *path) run(group []vector) []outcome {
	p.t.Helper()
	outcomes := make([]outcome, len(group))
	config, err := group[0].routeOf()
	if err != nil {
		for i := range outcomes {
			outcomes[i].refused = err
		}
		return outcomes
	}
	p.exec(cleanSQL)
	for _, sql := range group[0].DDL {
		p.exec(sql)
	}
	p.exec(`CREATE PUBLICATION conformance FOR ALL TABLES WITH (` + group[0].Publication + `)`)
	p.exec(`SELECT pg_create_logical_replication_slot('conformance', 'pgoutput')`)
	j := p.begin(group[0], config)
	ends := make([]lsn.End, len(group))
	for i, v := range group {
		if _, err := p.try(v.SQL); err != nil {
			p.t.Logf("%s: %v", v.Case, err)
		}
		p.exec("ROLLBACK") // of what a failure has left open
		ends[i] = p.position()
	}
	p.exec(`SELECT pg_logical_emit_message(true, 'conformance', 'end')`)
	stopped := j.finish(ends[len(ends)-1])
	p.exec(`SELECT pg_drop_replication_slot('conformance')`)
	for _, d := range j.appended {
		i := slices.IndexFunc(ends, func(end lsn.End) bool { return d.Identity.Commit.CoveredBy(end) })
		o := &outcomes[i]
		switch {
		case d.Topic != deadLetters:
			d.row = j.rows[d.Identity]
			o.records = append(o.records, d)
		case o.poison == nil:
			o.poison = errors.New(deadLetterReason(&d.Message))
		}
	}
	for i := range outcomes {
		if stopped != nil && j.flow.identity.Commit.CoveredBy(ends[i]) {
			outcomes[i].refused = stopped
		}
	}
	return outcomes
}

func deadLetterReason(m *router.Message) string {
	for _, h := range m.Headers {
		if h.Name == headerError {
			return string(h.Value)
		}
	}
	return "no reason"
}

// journey is the relaying of one group.
type journey struct {
	*path
	flow     *flow
	appended []delivered
	rows     map[lsn.Identity]map[string]cell
	stream   *replication.Stream
	stop     context.CancelFunc
	ended    chan error
	tee      *decoder.Decoder
	ordinal  uint32
}

func (p *path) begin(v vector, config router.Config) *journey {
	p.t.Helper()
	cfg := Config{DeadLetterTopic: deadLetters}
	list := v.tableList()
	const tables = `SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r', 'p') AND `
	for _, row := range p.exec(tables + usersSchemas)[0].Rows {
		name := string(row[0])
		if list.MatchString(name) {
			cfg.Tables = append(cfg.Tables, Table{Name: name, Route: config})
		} else {
			cfg.Ignore = append(cfg.Ignore, name)
		}
	}
	cfg = cfg.withDefaults()
	j := &journey{path: p, rows: map[lsn.Identity]map[string]cell{}, ended: make(chan error, 1), tee: decoder.New()}
	j.flow = &flow{
		cfg: cfg, progress: newProgress(zap.NewNop()), orders: newOrders(), publisher: j, decoder: decoder.New(),
		admit:  func(cluster string, _ int64) (bool, error) { return cluster != "", nil },
		routes: newRoutes(cfg, nil, newMetrics(prometheus.NewRegistry())), describe: p.relay.describe,
		window: checkpoint.NewWindow(0, cfg.MaxMessages, cfg.MaxTransactions),
	}
	conn, err := replication.Connect(p.t.Context(), replication.Config{URL: p.url, Messages: true})
	if err != nil {
		p.t.Fatal(err)
	}
	if j.stream, err = conn.Start(p.t.Context(), "conformance", "conformance"); err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	j.stop = stop
	go func() { j.ended <- j.flow.stream(ctx, ctx, j) }()
	return j
}

// finish waits until everything up to end is relayed and acknowledged. The error is that of a relay that stopped by itself.
func (j *journey) finish(end lsn.End) (stopped error) {
	j.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for stopped == nil && (lsn.End(j.flow.progress.receivedEnd.Load()) <= end || j.flow.progress.messages.Load() > 0) {
		if time.Now().After(deadline) {
			j.t.Fatalf("not relayed in time: %v of %v", lsn.End(j.flow.progress.receivedEnd.Load()), end)
		}
		select {
		case stopped = <-j.ended:
		case <-time.After(time.Millisecond):
			j.stream.Wake() // it looks for acknowledgements
		}
	}
	j.stop()
	if stopped == nil {
		j.stream.Wake()
		<-j.ended
	} else {
		limited, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		j.flow.detach()
		j.flow.drain(limited)
	}
	if err := j.stream.Close(10 * time.Second); err != nil {
		j.t.Fatal(err)
	}
	return stopped
}

// The journey as Source notes the rows on their way.

func (j *journey) Next(until time.Time) (replication.Frame, bool, error) {
	frame, ok, err := j.stream.Next(until)
	if ok && !frame.Keepalive {
		j.note(frame.Data)
	}
	return frame, ok, err
}

func (j *journey) note(data []byte) {
	kind, err := j.tee.Decode(data)
	if err != nil {
		j.t.Error(err)
	}
	switch kind {
	case decoder.KindBegin:
		j.ordinal = 0
	case decoder.KindUpdate, decoder.KindDelete, decoder.KindTruncate, decoder.KindMessage:
		j.ordinal++
	case decoder.KindInsert:
		j.ordinal++
		cells := map[string]cell{}
		for i, column := range j.tee.Row.Columns {
			cells[j.tee.Row.Relation.Columns[i].Name] = cell{text: string(column.Data), null: column.Kind == decoder.ColumnNull}
		}
		j.rows[lsn.Identity{Commit: j.tee.Begin.Commit, Time: j.tee.Begin.Time, Ordinal: j.ordinal}] = cells
	}
}

func (j *journey) Buffered() bool { return j.stream.Buffered() }

func (j *journey) SendStatus(end lsn.End, ask bool) error { return j.stream.SendStatus(end, ask) }

func (j *journey) Received() time.Time { return j.stream.Received() }

// The journey as Publisher notes the messages that the producer takes.

func (j *journey) Append(m *router.Message, tx uint64) (kafka.Status, error) {
	status, err := j.producer.Append(m, tx)
	if status == kafka.Appended {
		d := delivered{Message: *m, explicit: m.Partition >= 0}
		d.Key, d.Value, d.Headers = bytes.Clone(m.Key), bytes.Clone(m.Value), slices.Clone(m.Headers)
		for i := range d.Headers {
			d.Headers[i].Value = bytes.Clone(d.Headers[i].Value)
		}
		j.appended = append(j.appended, d)
	}
	return status, err
}

func (j *journey) Send()                               { j.producer.Send() }
func (j *journey) Acked(dst []kafka.Ack) []kafka.Ack   { return j.producer.Acked(dst) }
func (j *journey) Notify() <-chan struct{}             { return j.producer.Notify() }
func (j *journey) Trouble() (kafka.Trouble, bool)      { return j.producer.Trouble() }
func (j *journey) Resumed(n int) ([]lsn.Identity, int) { return j.producer.Resumed(n) }
func (j *journey) ClusterID() string                   { return j.producer.ClusterID() }
func (j *journey) ProducerID() int64                   { return j.producer.ProducerID() }
func (j *journey) Withdraw(topic string, partition int32) (kafka.Withdrawn, bool) {
	return j.producer.Withdraw(topic, partition)
}
