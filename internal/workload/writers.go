package workload

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say what is written.
type Options struct {
	// Seed decides what each writer does. What becomes of it also depends on the others.
	Seed uint64
	// Writers write at once, each after Pause.
	Writers int
	Pause   time.Duration
	// Mix is Basic or Everything.
	Mix Mix
}

// Writers write until they are told to stop.
type Writers struct {
	stop   context.CancelFunc
	ended  sync.WaitGroup
	mu     sync.Mutex
	counts map[string]int // transactions by kind
	errs   []error
}

// Start starts writers on the database of url, which may go away and come back. Finish must be called.
func Start(ctx context.Context, url string, o Options) *Writers {
	ctx, cancel := context.WithCancel(ctx)
	w := &Writers{stop: cancel, counts: map[string]int{}}
	for n := range o.Writers {
		one := &writer{url: url, number: n, rng: rand.New(rand.NewPCG(o.Seed, uint64(n))), mix: o.Mix}
		w.ended.Go(func() { w.run(ctx, o.Pause, one) })
	}
	if o.Mix.partitions {
		p := &partitions{url: url, rng: rand.New(rand.NewPCG(o.Seed, uint64(o.Writers)))}
		w.ended.Go(func() { w.turnOver(ctx, p) })
	}
	return w
}

// Finish ends the writers, waits for them, and for the end of every prepared transaction. The server must answer.
func (w *Writers) Finish() error {
	w.stop()
	w.ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) > 0 {
		return w.errs[0]
	}
	return nil
}

// Counts are the transactions by kind; "broken off" are those that a server or the network did not let end.
func (w *Writers) Counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts)
}

func (w *Writers) count(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[kind]++
}

// run writes one transaction after the other.
func (w *Writers) run(ctx context.Context, pause time.Duration, one *writer) {
	clock := time.NewTicker(pause)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			err := one.settle(context.WithoutCancel(ctx))
			one.disconnect()
			w.mu.Lock()
			defer w.mu.Unlock()
			if err != nil {
				w.errs = append(w.errs, err)
			}
			return
		case <-clock.C:
		}
		if one.connect(ctx) != nil {
			continue
		}
		kind, err := one.transact(context.WithoutCancel(ctx))
		if err != nil {
			kind = "broken off"
			one.disconnect()
		}
		w.count(kind)
	}
}

// patience is how long a transaction may take.
const patience = 30 * time.Second

// writer is one connection, which is made anew when it breaks. A commit whose answer is lost is no problem: the table will
// tell.
type writer struct {
	url    string
	number int
	rng    *rand.Rand
	mix    Mix
	conn   *pgx.Conn
}

// connect connects unless there is a connection, and ends what the connection before has left prepared.
func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	if w.conn, err = pgx.Connect(ctx, w.url); err != nil {
		w.conn = nil
		return err
	}
	if err = w.endPrepared(ctx); err != nil {
		w.disconnect()
	}
	return err
}

func (w *writer) disconnect() {
	if w.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.conn.Close(ctx) // the server may be gone
		w.conn = nil
	}
}

// settle makes sure at the end that nothing stays prepared.
func (w *writer) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	if err := w.connect(ctx); err != nil {
		return fmt.Errorf("end what writer %d has prepared: %w", w.number, err)
	}
	return w.endPrepared(ctx)
}

// transact writes one transaction of a random kind.
func (w *writer) transact(ctx context.Context) (kind string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dice := w.rng.IntN(w.mix.weight())
	for _, k := range w.mix.kinds {
		if dice -= k.weight; dice < 0 {
			return k.name, k.write(ctx, w)
		}
	}
	panic("the weights do not add up")
}

// someKeys are 1 to 5 keys in the order in which everybody locks them.
func (w *writer) someKeys() []string {
	var chosen []string
	for _, n := range w.rng.Perm(keys)[:1+w.rng.IntN(5)] {
		chosen = append(chosen, fmt.Sprint("key-", n))
	}
	slices.Sort(chosen)
	return chosen
}

// table is where the next events go.
func (w *writer) table() string {
	if w.mix.partitions && w.rng.IntN(3) == 0 {
		return "outbox_parts"
	}
	return "outbox"
}
