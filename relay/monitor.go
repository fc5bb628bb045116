package relay

import (
	"context"
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

// monitor looks at the slot from outside, over a connection of its own, for status and metrics. It decides
// nothing; a server that does not answer it shows in the stream as well.
func (r *Relay) monitor(ctx context.Context) error {
	ticker := time.NewTicker(monitorInterval)
	defer ticker.Stop()
	var conn *pgx.Conn
	for {
		if err := r.look(ctx, &conn); err != nil && ctx.Err() == nil {
			r.log.Debug("slot cannot be looked at", zap.Error(err))
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

func (r *Relay) look(ctx context.Context, conn **pgx.Conn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, monitorInterval)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		if *conn, err = r.connectSQL(ctx); err != nil {
			*conn = nil
			return err
		}
	}
	var end string
	view := slotView{name: r.cfg.Postgres.Slot}
	err = (*conn).QueryRow(ctx, `SELECT pg_current_wal_lsn()::text, coalesce(pg_current_wal_lsn() - restart_lsn, 0)::bigint
		FROM pg_replication_slots WHERE slot_name = $1`, view.name).Scan(&end, &view.retained)
	if err != nil {
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
