package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
)

// Relay takes the rows of outbox tables from one slot to Kafka.
type Relay struct {
	cfg      Config
	log      *zap.Logger
	metrics  *metrics
	progress *progress
	orders   *orders
	types    map[uint32]replication.Type // that were looked up, by oid
	clock    logClock
	produced produced
	patience patience // the reader's
	// unchanged looks, at a reconnect, whether slot and publication are what this run has left. The reader's.
	unchanged func(context.Context) error

	slot    atomic.Pointer[slotView]           // written by the monitor
	current atomic.Pointer[replication.Stream] // the stream to wake
	proven  atomic.Bool                        // a stream was had: configuration and rights are right
}

// New makes a relay that counts in the registry. A nil log is silent.
func New(cfg Config, log *zap.Logger, registry prometheus.Registerer) *Relay {
	if log == nil {
		log = zap.NewNop()
	}
	r := &Relay{
		cfg:      cfg.withDefaults(),
		log:      log,
		metrics:  newMetrics(registry),
		progress: newProgress(log),
		orders:   newOrders(),
		types:    make(map[uint32]replication.Type),
	}
	r.patience.timeout = r.cfg.Postgres.WALSenderTimeout
	r.slot.Store(&slotView{name: r.cfg.Postgres.Slot})
	r.cfg.Kafka.OnBatch = func(b kafka.BatchAck) {
		now := time.Now()
		r.progress.answered.Store(now.UnixNano())
		r.metrics.acknowledged(b, now)
	}
	registry.MustRegister(newGauges(r.Status, r.produced.stats))
	return r
}

// NeedRestart says whether the configuration that Run was begun with is older than the one there is. Any goroutine may
// call it.
func (r *Relay) NeedRestart(needed bool) { r.progress.restartNeeded.Store(needed) }

// Run relays until ctx ends; then it waits for the last acknowledgements, saves, tells Postgres and returns
// nil. An error needs a person: *StopError, *replication.SetupError, or a refused password at the first
// start. Everything else, on either side, is tried again without limit, since the slot keeps the log.
func (r *Relay) Run(ctx context.Context) error {
	var pace backoff
	for {
		err := r.run(ctx)
		switch {
		case ctx.Err() != nil:
			r.progress.become(Stopped, "")
			return nil
		case errors.Is(err, errAdopted):
			continue
		case r.final(err):
			if !r.stopped(ctx, err) {
				return err
			}
			continue
		}
		r.failed(err)
		pace.wait(ctx)
	}
}

// stoppedRetry is how often a stopped relay begins anew.
const stoppedRetry = 30 * time.Second

// stopped takes note of what needs a person. It tells whether to begin anew, and has waited then.
func (r *Relay) stopped(ctx context.Context, err error) bool {
	text, code := oneLine(err).Error(), replication.FaultOf(err)
	if state, _, reason := r.progress.now(); r.cfg.WaitStopped && (state != Stopped || reason != text) {
		r.log.Error("relay is stopped until a person has acted; it tries again every "+stoppedRetry.String(), zap.String("code", string(code)), zap.String("error", text))
	}
	r.metrics.failed(classOf(err))
	r.progress.stop(code, text)
	if r.cfg.WaitStopped {
		r.lookOnce(ctx)
		pause(ctx, stoppedRetry)
	}
	return r.cfg.WaitStopped
}

// final tells whether err needs a person. Once a stream was had, errors of the connection itself are a
// failover or a rotated password.
func (r *Relay) final(err error) bool {
	var stop *StopError
	if errors.As(err, &stop) {
		return true
	}
	var connect *replication.ConnectError
	if errors.As(err, &connect) && r.proven.Load() {
		return false
	}
	return replication.Classify(err) == replication.Stop
}

// failed takes note of an error that is tried again. The same one again and again is one line in the log.
func (r *Relay) failed(err error) {
	class, text := classOf(err), oneLine(err).Error()
	r.metrics.failed(class)
	if state, _, reason := r.progress.now(); state != Starting || reason != text {
		r.log.Warn("trying again", zap.String("class", class), zap.String("error", text))
	}
	r.progress.become(Starting, text)
}

// wake makes the reader look up from the socket.
func (r *Relay) wake() {
	if stream := r.current.Load(); stream != nil {
		stream.Wake()
	}
}
