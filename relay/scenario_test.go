package relay

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/internal/pgoutputtest"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"

	"go.uber.org/zap"
)

var update = flag.Bool("update", false, "rewrite the scenarios' outcomes; read the diff before committing")

// TestScenarios plays the scripts of testdata/scenarios. A line that begins with ">" is a command; the lines
// below it are what the flow did because of it. The commands are the methods of play.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = play(t, string(want)) })
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the flow does something else (-script +run):\n%s", diff)
			}
		})
	}
}

// stage is the world around a flow: a scripted source and a scripted publisher, which write down what the
// flow does with them.
type stage struct {
	t      *testing.T
	flow   *flow
	log    strings.Builder
	frames chan any // replication.Frame or error
	wakes  chan struct{}
	notify chan struct{}
	turn   atomic.Int64 // of the script, see see
	heard  time.Time    // when the last frame came

	room     int // records that the publisher still takes; negative: no limit
	poison   string
	present  map[string]bool // keys of events that are in Kafka already
	trouble  *kafka.Trouble
	refused  kafka.Withdrawn // the record that halts a partition
	cluster  string
	producer int64
	acks     []kafka.Ack

	stop     context.CancelFunc
	cancel   context.CancelFunc
	ended    chan error
	start    time.Time
	relation decoder.Relation
	known    map[uint32]replication.Type // the catalog's types; nil: it does not answer
}

func play(t *testing.T, script string) string {
	s := &stage{t: t, room: -1, cluster: "main", notify: make(chan struct{}, 1), start: time.Now()}
	s.relation = decoder.Relation{ID: 7, Namespace: "public", Name: "outbox", Columns: []decoder.RelationColumn{
		{Name: "id", Type: 25}, {Name: "aggregatetype", Type: 25}, {Name: "aggregateid", Type: 25},
		{Name: "type", Type: 25}, {Name: "payload", Type: 25},
	}}
	s.flow = s.newFlow(0)
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(script))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"), line == "":
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			out.WriteString(line + "\n")
			s.do(strings.Fields(line[2:]))
			synctest.Wait()
			s.noteEnd()
			out.WriteString(s.log.String())
			s.log.Reset()
			s.turn.Add(1)
		}
	}
	s.disconnect()
	return out.String()
}

func (s *stage) newFlow(saved lsn.End) *flow {
	cfg := Config{Tables: []Table{{Name: "public.outbox"}}, Ignore: []string{"public.ignored"}, MaxMessages: 4, MaxTransactions: 3}.withDefaults()
	progress := newProgress(zap.NewNop())
	progress.begin(checkpoint.Row{LSN: saved, KafkaClusterID: "main"})
	return &flow{
		cfg: cfg, progress: progress, orders: newOrders(), publisher: s, admit: progress.admit, decoder: decoder.New(),
		routes:   newRoutes(cfg, nil, newMetrics(prometheus.NewRegistry())),
		describe: s.describe,
		window:   checkpoint.NewWindow(saved, cfg.MaxMessages, cfg.MaxTransactions),
		identity: lsn.Identity{Source: 0xabcd},
		resume:   resume{received: saved},
		sent:     saved,
		silence:  newSilence(0),
	}
}

func (s *stage) logf(format string, args ...any) { fmt.Fprintf(&s.log, format+"\n", args...) }

// see makes what the script has done visible to the flow, also when a timer and not the script woke it.
func (s *stage) see() { s.turn.Load() }

// do plays one command.
func (s *stage) do(words []string) {
	verb, args := words[0], words[1:]
	switch verb {
	case "restart": // a new process: position of the row
		s.disconnect()
		s.acks = nil
		s.flow = s.newFlow(s.end(args[0]))
	case "connect":
		s.connect()
	case "break": // the connection ends
		s.frames <- errors.New("connection reset")
	case "stop":
		s.stop()
		s.Wake()
	case "ack": // transaction, messages
		s.acks = append(s.acks, kafka.Ack{Tx: uint64(s.number(args[0])) << 1, N: int32(s.number(args[1]))})
		s.signal()
		s.Wake()
	case "room": // what the publisher takes from now on
		s.room = s.number(args[0])
		s.signal()
	case "uncertain": // up to a position the run before may have published, and it has these
		s.flow.uncertain = s.end(args[0])
		s.present = map[string]bool{}
		for _, key := range args[1:] {
			s.present[key] = true
		}
	case "poison":
		s.poison = strings.Join(args, " ")
	case "trouble":
		s.trouble = nil
		if len(args) > 0 {
			s.trouble = &kafka.Trouble{Kind: kafka.Kind(args[0]), Topic: "outbox.event.order", Partition: -1}
		}
		s.signal()
	case "dead-letter":
		s.flow.cfg.DeadLetterTopic = args[0]
	case "refuse": // the brokers refuse a record that was appended: transaction, commit, ordinal
		id := lsn.Identity{Source: 0xabcd, Commit: lsn.Start(s.end(args[1])), Time: s.start.UnixMicro(), Ordinal: uint32(s.number(args[2]))}
		s.trouble = &kafka.Trouble{Kind: kafka.KindRecordTooLarge, Topic: "outbox.event.order", Event: id, Err: errors.New("MESSAGE_TOO_LARGE")}
		s.trouble.Tx = uint64(s.number(args[0])) << 1
		if len(args) > 3 { // it came as a message
			s.trouble.Tx |= lotOfMessages
		}
		s.refused = kafka.Withdrawn{Tx: s.trouble.Tx, Message: router.Message{Topic: s.trouble.Topic, Partition: -1, Key: []byte("k"),
			Value: []byte("large"), Time: s.start.UnixMilli(), Identity: id, Headers: []router.Header{{Name: "id", Value: []byte("7")}, {Name: router.HeaderPosition}}}}
		s.signal()
		s.Wake()
	case "cluster":
		s.cluster = strings.Join(args, " ")
		s.signal()
	case "producer": // what Kafka knows the producer by
		s.producer = int64(s.number(args[0]))
		s.signal()
	case "identified": // the row has the producer's id
		s.flow.progress.knownProducer.Store(s.producer)
		s.flow.progress.changed <- struct{}{}
	case "walsender": // is seen at work from now on
		s.flow.progress.seen.Store(s.start.Add(time.Hour).UnixNano())
	case "saved": // the row was written
		s.flow.progress.saved.Store(uint64(s.end(args[0])))
		s.Wake()
	case "sleep":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.turn.Add(1)
		time.Sleep(d) // in the bubble's time
	case "state":
		synctest.Wait()
		state, _, reason := s.flow.progress.now()
		s.logf("%s %s", state, reason)
	case "confirmed":
		s.logf("%v", lsn.End(s.flow.progress.confirmed.Load()))
	default:
		s.send(verb, args)
	}
}

// send plays what comes from Postgres.
func (s *stage) send(verb string, args []string) {
	switch verb {
	case "row-of": // a row of another table
		other := decoder.Relation{ID: 8, Namespace: "public", Name: args[0], Columns: s.relation.Columns}
		s.frame(pgoutputtest.Relation(other))
		s.frame(s.row(8, "k"))
	case "begin":
		s.frame(pgoutputtest.Begin(decoder.Begin{Commit: lsn.Start(s.end(args[0])), Time: s.start.UnixMicro()}))
		s.frame(pgoutputtest.Relation(s.relation))
	case "row":
		s.frame(s.row(s.relation.ID, args[0]))
	case "null-route":
		text := pgoutputtest.Text
		s.frame(pgoutputtest.Insert(s.relation.ID, text("id"), pgoutputtest.Null(), text("k"), text("t"), text("{}")))
	case "huge-row": // of a table
		relation := s.relation
		if args[0] != relation.Name {
			relation.ID, relation.Name = 8, args[0]
			s.frame(pgoutputtest.Relation(relation))
		}
		s.frames <- replication.Frame{Data: s.row(relation.ID, "k"), Size: 20 << 20}
	case "garbage":
		s.frame([]byte{'I', 0, 0})
	case "commit":
		s.frame(pgoutputtest.Commit(decoder.Commit{Start: lsn.Start(s.end(args[0])), End: s.end(args[1]), Time: s.start.UnixMicro()}))
	case "keepalive":
		s.frames <- replication.Frame{Keepalive: true, End: s.end(args[0]), Reply: len(args) > 1}
	case "storm":
		for range stormSize + 1 {
			s.frames <- replication.Frame{Keepalive: true, End: s.end(args[0]), Reply: true}
		}
	default:
		s.ask(verb, args)
	}
}

// ask plays what people ask for.
func (s *stage) ask(verb string, args []string) {
	switch verb {
	case "pause":
		s.flow.orders.take([]checkpoint.Request{{ID: 1, Kind: checkpoint.Pause, By: "ann", Reason: "maintenance"}}, 0)
		s.Wake()
	case "resume":
		s.flow.orders.take([]checkpoint.Request{{ID: 1, Kind: checkpoint.Pause, Done: true}, {ID: 2, Kind: checkpoint.Resume}}, 0)
		s.signal()
	case "skip": // commit and ordinal
		id := lsn.Identity{Source: 0xabcd, Commit: lsn.Start(s.end(args[0])), Time: s.start.UnixMicro(), Ordinal: uint32(s.number(args[1]))}
		s.flow.orders.take([]checkpoint.Request{{ID: 3, Kind: checkpoint.Skip, Event: id.String(), By: "ann"}}, 0)
		s.signal()
		s.Wake()
	case "outcomes":
		for id, outcome := range s.flow.orders.outcomes() {
			s.logf("request %d: %s", id, outcome)
		}
	default:
		if !s.doMessages(verb, args) && !s.doShapes(verb, args) {
			s.t.Fatalf("unknown command %q", verb)
		}
	}
}

func (s *stage) row(relation uint32, key string) []byte {
	text := pgoutputtest.Text
	return pgoutputtest.Insert(relation, text("id"), text("order"), text(key), text("t"), text("{}"))
}

func (s *stage) frame(data []byte) { s.frames <- replication.Frame{Data: data, Size: len(data)} }

func (s *stage) connect() {
	s.frames = make(chan any, 64)
	s.wakes = make(chan struct{}, 1)
	s.ended = make(chan error, 1)
	var limit, stop context.Context
	limit, s.cancel = context.WithCancel(s.t.Context())
	stop, s.stop = context.WithCancel(limit)
	ended := s.ended
	s.flow.progress.become(Streaming, "")
	go func() { ended <- s.flow.stream(limit, stop, s) }()
}

// noteEnd writes down that the stream has ended.
func (s *stage) noteEnd() {
	select {
	case err := <-s.ended:
		s.logf("ended: %v", err)
		s.flow.detach()
		s.ended = nil
	default:
	}
}

// disconnect ends the stream, also a halted one.
func (s *stage) disconnect() {
	if s.ended != nil {
		s.cancel()
		s.Wake()
		<-s.ended
		s.ended = nil
		s.log.Reset()
	}
}

func (s *stage) signal() {
	select {
	case s.notify <- struct{}{}:
	default:
	}
}

func (s *stage) end(text string) lsn.End {
	end, err := lsn.ParseEnd("0/" + text)
	if err != nil {
		s.t.Fatal(err)
	}
	return end
}

func (s *stage) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// The stage as Source.

func (s *stage) Buffered() bool { return len(s.frames) > 0 }

func (s *stage) Next(until time.Time) (replication.Frame, bool, error) {
	s.see()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case next := <-s.frames:
		if err, ok := next.(error); ok {
			return replication.Frame{}, false, err
		}
		s.heard = time.Now()
		return next.(replication.Frame), true, nil
	case <-s.wakes:
	case <-timer.C:
	}
	return replication.Frame{}, false, nil
}

func (s *stage) Wake() {
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

func (s *stage) SendStatus(end lsn.End, ask bool) error {
	s.see()
	asking := ""
	if ask {
		asking = ", and asks"
	}
	s.logf("status %v at %v%s", end, time.Since(s.start).Round(time.Millisecond), asking)
	return nil
}

func (s *stage) Received() time.Time {
	s.see()
	return s.heard
}

// The stage as Publisher.

func (s *stage) Append(m *router.Message, tx uint64) (kafka.Status, error) {
	s.see()
	switch {
	case s.present[string(m.Key)]:
		return kafka.Suppressed, nil
	case s.poison != "":
		return 0, &kafka.PoisonError{Reason: s.poison, Topic: m.Topic}
	case s.trouble != nil && s.trouble.Topic == m.Topic:
		return kafka.Pending, nil
	case s.room == 0:
		return kafka.Full, nil
	case s.room > 0:
		s.room--
	}
	s.logf("append tx %d%s: %s %s %s", tx>>1, []string{"", " (message)"}[tx&1], m.Topic, m.Key, m.Headers[len(m.Headers)-1].Value)
	for _, h := range m.Headers {
		if strings.HasPrefix(h.Name, "walrelay.") && h.Name != router.HeaderPosition {
			s.logf("  %s: %s", h.Name, h.Value)
		}
	}
	return kafka.Appended, nil
}

func (s *stage) Acked(dst []kafka.Ack) []kafka.Ack {
	s.see()
	dst = append(dst, s.acks...)
	s.acks = nil
	return dst
}

func (s *stage) Notify() <-chan struct{} { return s.notify }

func (s *stage) Trouble() (kafka.Trouble, bool) {
	s.see()
	if s.trouble == nil {
		return kafka.Trouble{}, false
	}
	return *s.trouble, true
}

func (s *stage) ClusterID() string { return s.cluster }

// Send is not written down: it comes at the end of each burst.
func (s *stage) Send() {}

func (s *stage) ProducerID() int64 { return s.producer }

func (s *stage) Withdraw(topic string, _ int32) (kafka.Withdrawn, bool) {
	s.see()
	if s.refused.Tx == 0 {
		return kafka.Withdrawn{}, false
	}
	s.logf("withdraw from %s", topic)
	s.trouble = nil
	taken := s.refused
	s.refused = kafka.Withdrawn{}
	return taken, true
}

func (s *stage) Resumed(int) ([]lsn.Identity, int) {
	s.see()
	s.logf("resumed")
	return nil, 0
}
