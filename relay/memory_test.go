package relay

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgoutputtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// sink acknowledges everything at the next look. What the real producer costs, its own package measures.
type sink struct {
	acks   []kafka.Ack
	notify chan struct{}
}

func (s *sink) Append(_ *router.Message, tx uint64) (kafka.Status, error) {
	s.acks = append(s.acks, kafka.Ack{Tx: tx, N: 1})
	return kafka.Appended, nil
}

func (s *sink) Acked(dst []kafka.Ack) []kafka.Ack {
	dst = append(dst, s.acks...)
	s.acks = s.acks[:0]
	return dst
}

func (s *sink) Notify() <-chan struct{}                        { return s.notify }
func (s *sink) Trouble() (kafka.Trouble, bool)                 { return kafka.Trouble{}, false }
func (s *sink) Withdraw(string, int32) (kafka.Withdrawn, bool) { return kafka.Withdrawn{}, false }
func (s *sink) Resumed(int) ([]lsn.Identity, int)              { return nil, 0 }
func (s *sink) Send()                                          {}
func (s *sink) ProducerID() int64                              { return 0 }
func (s *sink) ClusterID() string                              { return "main" }

// quiet is a source that takes statuses and has nothing to read.
type quiet struct{}

func (quiet) Next(time.Time) (replication.Frame, bool, error) { return replication.Frame{}, false, nil }
func (quiet) Buffered() bool                                  { return false }
func (quiet) SendStatus(lsn.End, bool) error                  { return nil }
func (quiet) Received() time.Time                             { return time.Now() }

// hotPath is a flow and one transaction of so many rows and messages, to be played again and again.
func hotPath(rows, emitted int) (play func()) {
	cfg := Config{
		Tables:   []Table{{Name: "public.outbox"}},
		Messages: &Messages{Prefix: "walrelay", Topics: []string{"outbox.event.*"}},
	}.withDefaults()
	progress := newProgress(zap.NewNop())
	f := &flow{
		cfg: cfg, progress: progress, orders: newOrders(), publisher: &sink{}, admit: progress.admit, decoder: decoder.New(),
		routes: newRoutes(cfg, nil, newMetrics(prometheus.NewRegistry())),
		window: checkpoint.NewWindow(0, cfg.MaxMessages, cfg.MaxTransactions),
	}
	var err error
	if f.messages, err = newMessages(cfg, f.routes.metrics); err != nil {
		panic(err)
	}
	f.attach(quiet{})
	relation := decoder.Relation{ID: 7, Namespace: "public", Name: "outbox", Columns: []decoder.RelationColumn{
		{Name: "id", Type: 2950}, {Name: "aggregatetype", Type: 25}, {Name: "aggregateid", Type: 25},
		{Name: "type", Type: 25}, {Name: "payload", Type: 3802}, {Name: "created_at", Type: 1184},
	}}
	text := pgoutputtest.Text
	payload := make([]byte, 300)
	for i := range payload {
		payload[i] = 'x'
	}
	row := pgoutputtest.Insert(relation.ID, text("0f8fad5b-d9cb-469f-a165-70867728950e"), text("order"), text("order-4711"),
		text("OrderCreated"), text(string(payload)), text("2026-11-29 12:00:00.123456+00"))
	message := pgoutputtest.Message(decoder.Message{Transactional: true, Prefix: []byte("walrelay"), Content: []byte(
		`{"id": "0f8fad5b-d9cb-469f-a165-70867728950e", "aggregatetype": "order", "aggregateid": "order-4711", ` +
			`"type": "OrderCreated", "payload": {"a": "` + string(payload) + `"}, "headers": {"tenant": "t1"}}`)})
	ctx := context.Background()
	frame := func(data []byte) {
		if err := f.frame(ctx, replication.Frame{Data: data, Size: len(data)}); err != nil {
			panic(err)
		}
	}
	begin := pgoutputtest.Begin(decoder.Begin{Time: 1_800_000_000_000_000})
	commit := pgoutputtest.Commit(decoder.Commit{Time: 1_800_000_000_000_000})
	frame(begin)
	frame(pgoutputtest.Relation(relation))
	position := uint64(0)
	move := func() { // the positions inside the frames
		position += 100
		binary.BigEndian.PutUint64(begin[1:], position)
		binary.BigEndian.PutUint64(commit[2:], position)
		binary.BigEndian.PutUint64(commit[10:], position+48)
	}
	move()
	binary.BigEndian.PutUint64(commit[2:], 0)
	frame(commit)
	return func() {
		move()
		frame(begin)
		for range rows {
			frame(row)
		}
		for range emitted {
			frame(message)
		}
		frame(commit)
		if err := f.turn(); err != nil {
			panic(err)
		}
	}
}

// raced tells that the race detector is on.
var raced bool

// Decode, route, hand over, acknowledge, confirm and turn allocate nothing.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates; make test runs this test without it as well")
	}
	play := hotPath(100, 100)
	for range 10 { // caches and buffers
		play()
	}
	if allocs := testing.AllocsPerRun(200, play); allocs != 0 {
		t.Errorf("a transaction of 100 rows and 100 messages costs %v allocations", allocs)
	}
}

func BenchmarkHotPath(b *testing.B) {
	for _, c := range []struct {
		name          string
		rows, emitted int
	}{{"row", 100, 0}, {"message", 0, 100}} {
		b.Run(c.name, func(b *testing.B) {
			play := hotPath(c.rows, c.emitted)
			play()
			b.ReportAllocs()
			for b.Loop() {
				play()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/event")
		})
	}
}
