package relay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/lsn"
)

// monitorInterval is how often the server is asked about the slot.
const monitorInterval = 10 * time.Second

// slotView is what the server says of the slot.
type slotView struct {
	name     string
	walEnd   uint64 // end of the server's log
	retained uint64 // bytes of log kept for the slot
}

// monitor looks at the slot from outside and hears what people ask for, over a connection of its own. A server that
// does not answer it shows in the stream as well, so it only waits. It ends the run when the relay must not go on.
func (r *Relay) monitor(ctx context.Context) error {
	ticker := time.NewTicker(ordersInterval)
	defer ticker.Stop()
	var conn *pgx.Conn
	var looked time.Time
	for {
		err := r.attend(ctx, &conn, &looked)
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

func (r *Relay) look(ctx context.Context, conn *pgx.Conn) error {
	var end, standbyNames string
	view := slotView{name: r.cfg.Postgres.Slot}
	err := conn.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text, coalesce(pg_current_wal_lsn() - restart_lsn, 0)::bigint,
		current_setting('synchronous_standby_names')
		FROM pg_replication_slots WHERE slot_name = $1`, view.name).Scan(&end, &view.retained, &standbyNames)
	if err != nil {
		return err
	}
	if err := r.notSynchronous(standbyNames); err != nil {
		return err
	}
	position, err := lsn.ParseEnd(end)
	view.walEnd = uint64(position)
	r.slot.Store(&view)
	return err
}

// connectSQL opens an ordinary connection under our name.
func (r *Relay) connectSQL(ctx context.Context) (*pgx.Conn, error) {
	config, err := r.cfg.Postgres.SQL()
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}
