package relay

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
)

// State is what the relay is doing.
type State string

// The states.
const (
	Starting  State = "starting"  // looks at server, slot and table
	Standby   State = "standby"   // another process holds the slot
	Streaming State = "streaming" // reads and publishes
	Drained   State = "drained"   // as streaming, and the server can be stopped for good
	Paused    State = "paused"    // a person wants it to wait
	Halted    State = "halted"    // one event or topic needs a person; nothing overtakes it
	Draining  State = "draining"  // told to stop, waits for the last acknowledgements
	Stopped   State = "stopped"
)

// progress is what the goroutines of a relay know of each other: positions as atomics, written by one
// goroutine each, and the state.
//
// saved <= confirmed <= received, except that saved may pass confirmed at a start, when it is the row's.
type progress struct {
	log *zap.Logger

	urgent  chan struct{} // asks the saver to save now; capacity 1
	changed chan struct{} // tells the reader that the saver has saved; capacity 1

	receivedEnd   atomic.Uint64 // written by the reader
	confirmed     atomic.Uint64 // written by the reader: acknowledged prefix
	commitTime    atomic.Int64  // written by the reader: of the last confirmed transaction with events, µs
	due           atomic.Bool   // set by the reader: events were acknowledged since the last save
	oldest        atomic.Int64  // written by the reader: commit time of the oldest unconfirmed transaction, µs; 0 = none
	messages      atomic.Int64  // written by the reader: handed to the producer and not acknowledged
	turned        atomic.Int64  // written by the reader: unix nanoseconds of the last turn of its loop
	acked         atomic.Int64  // written by the reader: unix nanoseconds of the last acknowledgement
	answered      atomic.Int64  // written by the producer: unix nanoseconds of the last acknowledgement, when it came
	saved         atomic.Uint64 // written by the saver: what Postgres may be told
	target        atomic.Uint64 // written by the monitor: everything up to here is to be in Kafka, then it is drained; 0 = no drain
	ceiling       atomic.Uint64 // written by the saver: drained, and up to here Postgres may be told without a save; 0 = not drained
	knownProducer atomic.Int64  // written by the saver: the producer id that the row has, or that was waited for long enough
	skips         atomic.Uint64 // written by the reader
	deadLetters   atomic.Uint64 // written by the reader
	held          atomic.Bool   // written by the reader: it waits for something, and has set state and reason itself
	saveFailing   atomic.Int64  // written by the saver: unix nanoseconds since when the row cannot be written; 0: it can

	serverStops atomic.Bool // written by the monitor: Postgres takes no connection any more; cleared by the reader

	restartNeeded      atomic.Bool // set by the caller of Run
	publicationChanged atomic.Bool // written by the saver and the reader: see errChanged

	seen         atomic.Int64 // written by the monitor: unix nanoseconds when our walsender was last seen at work
	senderWarned atomic.Bool  // written by the reader

	recent recent

	mu        sync.Mutex
	state     State
	since     time.Time
	reason    string     // of Halted and of trouble, for people
	clusterID string     // Kafka's, once known; of the row before that
	code      fault.Code // of Stopped
	kind      kafka.Kind // of what keeps records from getting through
}

func newProgress(log *zap.Logger) *progress {
	return &progress{
		log: log, state: Starting, since: time.Now(),
		urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

func (p *progress) received(end lsn.End) {
	if uint64(end) > p.receivedEnd.Load() {
		p.receivedEnd.Store(uint64(end))
	}
}

// advance takes the window's state over. acked says that events, not only a position, were acknowledged.
func (p *progress) advance(w *checkpoint.Window, acked bool, now time.Time) {
	p.turned.Store(now.UnixNano())
	messages, _ := w.InFlight()
	p.messages.Store(int64(messages))
	commitTime, open := w.Oldest()
	if !open {
		commitTime = 0
	}
	p.oldest.Store(commitTime)
	if acked {
		p.acked.Store(now.UnixNano())
	}
	p.commitTime.Store(w.ConfirmedTime())
	if end := uint64(w.Confirmed()); end > p.confirmed.Load() {
		p.confirmed.Store(end)
		p.recent.settle(w.Confirmed(), p.lastAnswer(now))
	}
	if acked {
		p.due.Store(true)
	}
}

// walsender is when ours was last seen at work.
func (p *progress) walsender() time.Time { return time.Unix(0, p.seen.Load()) }

// lastAnswer is when Kafka acknowledged last: the reader may look at it as late as ackTick.
func (p *progress) lastAnswer(now time.Time) time.Time {
	if at := p.answered.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return now
}

// mayConfirm is the position that Postgres may be told.
func (p *progress) mayConfirm() lsn.End {
	return lsn.End(max(p.saved.Load(), min(p.confirmed.Load(), p.ceiling.Load())))
}

// become changes the state; one line in the log for each change.
func (p *progress) become(state State, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == state && p.reason == reason {
		return
	}
	changed := p.state != state
	p.state, p.reason, p.since = state, reason, time.Now()
	if reason != "" && state != Standby && state != Paused && state != Drained {
		p.recent.failed(state, reason, p.since)
	}
	if state == Starting && !changed {
		return // the same attempt goes on, for another reason
	}
	log := p.log.Info
	if state == Halted { // why a relay stops is returned to the caller, who says it
		log = p.log.Error
	}
	log("relay is "+string(state), zap.String("state", string(state)), zap.String("reason", reason))
}

// stop says that a person is needed, and for what kind of reason.
func (p *progress) stop(code fault.Code, reason string) {
	p.mu.Lock()
	p.code = code
	p.mu.Unlock()
	p.become(Stopped, reason)
}

// stopped is the kind of reason for which the relay has stopped; empty: it has not.
func (p *progress) stopped() fault.Code {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != Stopped {
		return ""
	}
	return p.code
}

// phantoms reports events in Kafka whose transactions do not exist any more.
func (p *progress) phantoms(lost []lsn.Identity, total int) {
	names := make([]string, len(lost))
	for i, id := range lost {
		names[i] = id.String()
	}
	p.log.Error("Kafka has events of transactions that Postgres has lost (a failover to a server that was behind?)",
		zap.Int("events", total), zap.Strings("examples", names))
}

// begin takes the row over at the start of a run.
func (p *progress) begin(row checkpoint.Row) {
	p.confirmed.Store(uint64(row.LSN))
	p.saved.Store(uint64(row.LSN))
	p.target.Store(0)
	p.ceiling.Store(0)
	p.receivedEnd.Store(0)
	p.due.Store(false)
	p.held.Store(false)
	p.saveFailing.Store(0)
	p.publicationChanged.Store(false)
	p.knownProducer.Store(row.ProducerID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clusterID, p.kind = row.KafkaClusterID, ""
}

// admit tells whether the first message may go: the cluster is the row's, and the row has the producer's id. It
// refuses a Kafka cluster that is not the one the row's events are in: a relay of another environment
// with this database's address would take the events away from where they belong.
func (p *progress) admit(cluster string, producer int64) (bool, error) {
	if cluster == "" || producer == checkpoint.NoProducer {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusterID != "" && p.clusterID != cluster {
		return false, wrongCluster(p.clusterID, cluster)
	}
	p.clusterID = cluster
	if p.knownProducer.Load() == producer {
		return true, nil
	}
	select {
	case p.urgent <- struct{}{}:
	default:
	}
	return false, nil
}

// cluster is the Kafka cluster of the events.
func (p *progress) cluster() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clusterID
}

// note takes over what the producer says is wrong. A topic or a record that halts is a state of the relay;
// brokers that do not answer are a reason not to be ready.
func (p *progress) note(trouble kafka.Trouble, ok bool) {
	p.mu.Lock()
	p.kind = trouble.Kind
	p.mu.Unlock()
	state, _, reason := p.now()
	switch {
	case p.held.Load() || state != Streaming && state != Halted:
	case ok && trouble.Halted():
		p.become(Halted, troubleText(trouble))
	case ok:
		p.become(Streaming, troubleText(trouble))
	case state == Halted || reason != "":
		p.become(Streaming, "")
	}
}

// trouble is the kind of what keeps records from getting through; empty: nothing.
func (p *progress) trouble() kafka.Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kind
}

// troubleText names place, cause and remedy. The cause is left out while nothing is halted, since it changes
// from attempt to attempt, and each change of the text is a line in the log.
func troubleText(t kafka.Trouble) string {
	text := "kafka: " + strings.ReplaceAll(string(t.Kind), "_", " ")
	if t.Topic != "" {
		text += ": topic " + t.Topic
	}
	if t.Partition >= 0 {
		text += fmt.Sprintf(" partition %d", t.Partition)
	}
	if t.Halted() && t.Err != nil {
		text += ": " + t.Err.Error()
	}
	switch {
	case t.Remedy != "":
		text += "; " + t.Remedy
	case t.Kind == kafka.KindUnreachable:
		text += "; no broker answers: check that they run, and kafka.brokers, kafka.tls and kafka.sasl (walrelay doctor); it is tried again, and the slot keeps the events"
	case t.Kind == kafka.KindBlocked:
		text += "; it goes on by itself when the partition has a leader and enough replicas again, and the slot keeps the events"
	}
	if t.Event != (lsn.Identity{}) {
		text += "; or leave the event out: " + skipCommand(t.Event)
	}
	return text
}

func skipCommand(id lsn.Identity) string { return fmt.Sprintf("walrelay skip %v --reason ...", id) }

// halt says that the event with this identity needs a person.
func (p *progress) halt(id lsn.Identity, err error) {
	p.held.Store(true)
	p.become(Halted, fmt.Sprintf("event %v: %v; to leave it out: %s", id, err, skipCommand(id)))
}

// hold says why the reader can neither publish nor read on; release, that it can again.
func (p *progress) hold(reason string) {
	p.held.Store(true)
	p.become(Streaming, reason)
}

func (p *progress) release() {
	if p.held.Swap(false) {
		p.become(Streaming, "")
	}
}

// skipped says that an event was left out by order of a person, and that the relay goes on.
func (p *progress) skipped(id lsn.Identity, request checkpoint.Request) {
	p.log.Warn("event skipped", zap.Stringer("event", id), zap.Int64("request", request.ID),
		zap.String("by", request.By), zap.String("reason", request.Reason))
	p.skips.Add(1)
	p.held.Store(false)
	p.become(Streaming, "")
}

// ignored says once that somebody sends messages under our prefix that are no events.
func (p *progress) ignored(prefix string, at lsn.End) {
	if !p.senderWarned.Swap(true) {
		p.log.Warn("a message under our prefix is in no transaction, and is left out: call pg_logical_emit_message(true, ...), or walrelay.emit",
			zap.String("prefix", prefix), zap.Stringer("lsn", at))
	}
}

// buried counts a dead letter.
func (p *progress) buried() { p.deadLetters.Add(1) }

// unpause ends a pause.
func (p *progress) unpause() {
	if state, _, _ := p.now(); state == Paused {
		p.become(Streaming, "")
	}
}

// now is the state, since when, and why.
func (p *progress) now() (State, time.Time, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.since, p.reason
}
