package consumer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/migrations"
)

// real is a real broker and a database with the schema walrelay and the table effect, whose rows are in the order in which
// they were made.
type real struct {
	t      *testing.T
	addrs  []string
	topic  string
	client *kgo.Client
	pool   *pgxpool.Pool
	db     *sql.DB
}

func newReal(t *testing.T, partitions int) *real {
	t.Helper()
	r := &real{t: t, addrs: kafkatest.Shared(t, 1).Bootstrap(), topic: "consumer." + strings.ToLower(rand.Text()[:12])}
	if partitions > 0 {
		r.createTopic(partitions)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.addrs...), kgo.DefaultProduceTopic(r.topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	url := pgtest.Shared(t, "").Database(t)
	config, err := pgx.ParseConfig(url)
	if err == nil {
		err = migrations.Apply(t.Context(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, url, `CREATE TABLE effect (seq bigint GENERATED ALWAYS AS IDENTITY, key text, id text)`)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r.client, r.pool, r.db = client, pool, db
	return r
}

func (r *real) createTopic(partitions int) {
	r.t.Helper()
	if err := kafkatest.CreateTopic(r.t.Context(), r.addrs, r.topic, partitions, 1, nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) config() Config {
	return Config{Brokers: r.addrs, Group: r.topic, Topics: []string{r.topic}, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond,
		SessionTimeout: 6 * time.Second, DrainTimeout: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
}

// produce writes events of some keys, in order, each one twice, as after a relay's restart without the right to look.
func (r *real) produce(from, to, keys int) {
	r.t.Helper()
	for i := from; i < to; i++ {
		record := &kgo.Record{Key: fmt.Appendf(nil, "key %d", i%keys), Value: fmt.Append(nil, i), Headers: []kgo.RecordHeader{
			{Key: "id", Value: fmt.Append(nil, i)}, {Key: "walrelay.lsn", Value: fmt.Appendf(nil, "0000000a:0/%X:%d:1", i+1, 1000+i)}}}
		again := *record
		r.client.Produce(r.t.Context(), record, nil)
		r.client.Produce(r.t.Context(), &again, nil)
	}
	if err := r.client.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) count() (n int) {
	r.t.Helper()
	if err := r.pool.QueryRow(r.t.Context(), `SELECT count(*) FROM effect`).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *real) await(n int) {
	r.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for got := -1; got < n; time.Sleep(20 * time.Millisecond) {
		if got = r.count(); time.Now().After(deadline) {
			r.t.Fatalf("%d effects, want %d", got, n)
		}
	}
}

// audit checks that each event has its effect once, those of a key in order.
func (r *real) audit(events int) {
	r.t.Helper()
	var all, different, disorder int
	err := r.pool.QueryRow(r.t.Context(), `SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id::int < before)
		FROM (SELECT id, lag(id::int) OVER (PARTITION BY key ORDER BY seq) AS before FROM effect) e`).Scan(&all, &different, &disorder)
	if err != nil || all != events || different != events || disorder != 0 {
		r.t.Errorf("%d effects of %d events, want %d; %d out of order; %v", all, different, events, disorder, err)
	}
}

var errUnlucky = errors.New("unlucky")

const insertEffect = `INSERT INTO effect (key, id) VALUES ($1, $2)`

// effect fails now and then, before or after it has done its work.
func effect(ctx context.Context, tx pgx.Tx, m Message) error {
	if mathrand.N(20) == 0 {
		return errUnlucky
	}
	_, err := tx.Exec(ctx, insertEffect, string(m.Key), m.ID)
	if mathrand.N(20) == 0 {
		return errors.Join(err, errUnlucky)
	}
	return err
}

func effectSQL(ctx context.Context, tx *sql.Tx, m Message) error {
	_, err := tx.ExecContext(ctx, insertEffect, string(m.Key), m.ID)
	if mathrand.N(20) == 0 {
		return errors.Join(err, errUnlucky)
	}
	return err
}

// Members come and go while messages are handled in lanes by handlers that fail: every effect is there once, and those of a
// key are in order.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler     func(*real) Handler
		concurrency int
	}{
		"by id":            {func(r *real) Handler { return ExactlyOnce(r.pool, "c", effect) }, 4},
		"by id, sql":       {func(r *real) Handler { return ExactlyOnceSQL(r.db, "c", effectSQL) }, 4},
		"in order, by lsn": {func(r *real) Handler { return ExactlyOnceInOrder(r.pool, "c", effect) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, 4)
			cfg := r.config()
			cfg.Batch, cfg.Concurrency = 20, c.concurrency
			const part, keys = 400, 13
			nothing := func() {}
			running(t, cfg, c.handler(r), func() {
				r.produce(0, part, keys)
				r.await(part / 4)
				running(t, cfg, c.handler(r), func() { // a second member takes some partitions over, and gives them back
					r.produce(part, 2*part, keys)
					r.await(part + part/4)
				}, nothing)
				r.produce(2*part, 3*part, keys)
				r.await(2*part + part/4)
			}, nothing)
			running(t, cfg, c.handler(r), func() { r.await(3 * part) }, nothing)
			r.audit(3 * part)
		})
	}
}

// The markers that a relay leaves at an unclean start are no messages, and the group comes past them.
func TestMarkersAreSkipped(t *testing.T) {
	t.Parallel()
	r := newReal(t, 1)
	relay, err := kgo.NewClient(kgo.SeedBrokers(r.addrs...), kgo.DefaultProduceTopic(r.topic), kgo.TransactionalID(r.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	if err := relay.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := relay.ProduceSync(t.Context(), &kgo.Record{Value: []byte("one")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := relay.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for markers := 0; markers < 1; time.Sleep(10 * time.Millisecond) { // the coordinator writes it when it likes
		log, err := kafkatest.Read(t.Context(), r.addrs, r.topic)
		if markers = len(log.Controls); err != nil || time.Now().After(deadline) {
			t.Fatalf("%d markers, %v", markers, err)
		}
	}
	if err := r.client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("two")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var log record
	running(t, r.config(), AtLeastOnce(func(_ context.Context, messages []Message) error {
		log.add(string(messages[0].Value) + " " + messages[0].ID)
		return nil
	}), func() { log.await(t, "one "+r.topic+"/0/0", "two "+r.topic+"/0/2") }, func() {})
	if got := committed(t, r.addrs, r.topic, r.topic, 0); got != 3 {
		t.Errorf("committed %d, want 3", got)
	}
}

// A partition that is added later is found.
func TestPartitionComesLater(t *testing.T) {
	t.Parallel()
	r := newReal(t, 1)
	var log record
	running(t, r.config(), AtLeastOnce(func(_ context.Context, messages []Message) error {
		log.add(fmt.Sprint(messages[0].Partition))
		return nil
	}), func() {
		r.produceTo(0)
		log.await(t, "0")
		request := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = r.topic, 2
		request.Topics = append(request.Topics, topic)
		if answer, err := request.RequestWith(t.Context(), r.client); err != nil || answer.Topics[0].ErrorCode != 0 {
			t.Fatalf("%+v, %v", answer, err)
		}
		r.produceTo(1)
		log.await(t, "0", "1")
	}, func() {})
}

// produceTo writes one message to a partition, as soon as it is there.
func (r *real) produceTo(partition int32) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.addrs...), kgo.DefaultProduceTopic(r.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	deadline := time.Now().Add(30 * time.Second)
	for err = errUnlucky; err != nil; time.Sleep(20 * time.Millisecond) {
		err = client.ProduceSync(r.t.Context(), &kgo.Record{Partition: partition}).FirstErr()
		if err != nil && time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

// Old rows of the inbox go, young ones stay.
func TestRetention(t *testing.T) {
	t.Parallel()
	r := newReal(t, 1)
	if _, err := r.pool.Exec(t.Context(), `INSERT INTO walrelay.processed_events VALUES ('c', 'old', now() - interval '2 hours'), ('c', 'young', now())`); err != nil {
		t.Fatal(err)
	}
	cfg := r.config()
	cfg.Retention = time.Hour
	running(t, cfg, ExactlyOnce(r.pool, "c", effect), func() {
		deadline := time.Now().Add(30 * time.Second)
		for left := ""; left != "young"; time.Sleep(10 * time.Millisecond) {
			err := r.pool.QueryRow(t.Context(), `SELECT string_agg(event_id, ' ' ORDER BY event_id) FROM walrelay.processed_events`).Scan(&left)
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("left: %s, %v", left, err)
			}
		}
	}, func() {})
}
