package checkpoint

import (
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/lsn"
)

// columns are the columns of a row in the order of scan. The row may be read before its table is brought up to date, so
// columns of later migrations must be allowed to be absent.
const columns = `c.slot, c.state, c.system_id, c.timeline, c.lsn::text, c.commit_time, c.horizon::text,
	c.horizon_lsn::text, c.horizon_time, coalesce(c.publication, ''), c.run_epoch, coalesce(c.kafka_cluster_id, ''),
	c.producer_id, coalesce((to_jsonb(c) ->> 'match_by_id')::boolean, false), to_jsonb(c) ->> 'ceiling',
	coalesce(to_jsonb(c) ->> 'routing', ''), c.saved_at`

// scan reads the columns of the constant of that name.
func scan(r pgx.Row) (Row, error) {
	var row Row
	var position string
	var committed, horizonTime *time.Time
	var horizon, horizonLSN, ceiling *string
	var producer *int64
	err := r.Scan(&row.Slot, &row.State, &row.SystemID, &row.Timeline, &position, &committed, &horizon, &horizonLSN,
		&horizonTime, &row.Publication, &row.Epoch, &row.KafkaClusterID, &producer, &row.MatchByID, &ceiling,
		&row.Routing, &row.SavedAt)
	if err != nil {
		return Row{}, err
	}
	if committed != nil {
		row.CommitTime = *committed
	}
	row.ProducerID = NoProducer
	if producer != nil {
		row.ProducerID = *producer
	}
	if horizon != nil && horizonLSN != nil && horizonTime != nil {
		row.Horizon.Time = *horizonTime
		if row.Horizon.XID, err = strconv.ParseUint(*horizon, 10, 64); err != nil {
			return Row{}, err
		}
		if row.Horizon.LSN, err = lsn.ParseEnd(*horizonLSN); err != nil {
			return Row{}, err
		}
	}
	if ceiling != nil {
		if row.Ceiling, err = lsn.ParseEnd(*ceiling); err != nil {
			return Row{}, err
		}
	}
	row.LSN, err = lsn.ParseEnd(position)
	return row, err
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func nullID(id int64) *int64 {
	if id == NoProducer {
		return nil
	}
	return &id
}

func nullXID(xid uint64) *string {
	if xid == 0 {
		return nil
	}
	text := strconv.FormatUint(xid, 10)
	return &text
}

func nullEnd(end lsn.End) *string {
	if end == 0 {
		return nil
	}
	text := end.String()
	return &text
}

func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
