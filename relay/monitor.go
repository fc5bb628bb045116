package relay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// monitorInterval is how often the server is asked about the slot.
const monitorInterval = 10 * time.Second

// monitor looks at the slot from outside and hears what people ask for, over a connection of its own. A server that
// does not answer it shows in the stream as well, so it only waits. It ends the run when the relay must not go on.
func (r *Relay) monitor(ctx context.Context) error {
	ticker := time.NewTicker(ordersInterval)
	defer ticker.Stop()
	var conn *pgx.Conn
	var looked time.Time
	for {
		had := conn != nil && !conn.IsClosed()
		err := r.attend(ctx, &conn, &looked)
		if had && conn != nil && conn.IsClosed() { // whether the server takes another connection tells more
			err = r.attend(ctx, &conn, &looked)
		}
		r.progress.serverStops.Store(replication.RefusesConnections(err))
		var stop *StopError
		if errors.As(err, &stop) {
			closeConn(conn)
			return err
		}
		if err != nil && ctx.Err() == nil {
			r.log.Debug("slot and requests cannot be looked at", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			if conn != nil {
				closeConn(conn)
			}
			return nil
		case <-ticker.C:
		}
	}
}

func (r *Relay) attend(ctx context.Context, conn **pgx.Conn, looked *time.Time) (err error) {
	ctx, cancel := context.WithTimeout(ctx, monitorInterval)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		if *conn, err = r.connectSQL(ctx); err != nil {
			*conn = nil
			return err
		}
	}
	if err := r.hear(ctx, *conn); err != nil {
		return err
	}
	if time.Since(*looked) < monitorInterval {
		return nil
	}
	*looked = time.Now()
	return r.look(ctx, *conn)
}

// look asks the server about the slot.
func (r *Relay) look(ctx context.Context, conn *pgx.Conn) error {
	name := r.cfg.Postgres.Slot
	watch, err := replication.WatchSlot(ctx, conn, name)
	if err != nil {
		return err
	}
	if err := r.notSynchronous(watch.SynchronousStandbyNames); err != nil {
		return err
	}
	now := time.Now()
	if stream := r.current.Load(); stream != nil && watch.Slot != nil && watch.Slot.ActivePID == int32(stream.PID()) {
		r.progress.seen.Store(now.UnixNano())
	}
	r.clock.add(uint64(watch.End), now)
	var age time.Duration
	if watch.Slot != nil {
		if restart, err := lsn.ParseEnd(watch.Slot.RestartLSN); err == nil {
			age = r.clock.age(uint64(restart), now)
		}
	}
	status := slotStatus(watch, now, age)
	status.Finding = r.cfg.SlotWatch.Judge(name, watch)
	r.watched(r.slot.Load().finding(), status.Finding)
	r.slot.Store(&slotView{name: name, watch: watch, status: status})
	return nil
}

// lookOnce is look while no run is under way, so that people see the slot then too.
func (r *Relay) lookOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, monitorInterval)
	defer cancel()
	conn, err := r.connectSQL(ctx)
	if err != nil {
		return
	}
	defer closeConn(conn)
	_ = r.look(ctx, conn) // the next run tells
}

// connectSQL opens an ordinary connection under our name.
func (r *Relay) connectSQL(ctx context.Context) (*pgx.Conn, error) {
	config, err := r.cfg.Postgres.SQL()
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}
