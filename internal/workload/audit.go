package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walrelay/walrelay/internal/audit"
	"github.com/walrelay/walrelay/internal/kafkatest"
)

// noEvent is the type of rows that were never inserted into an outbox.
const noEvent = "NoEvent"

// Audit compares the tables as they stand with the topics. What is wrong in a record, its payload or partition, is an
// error; the rest stands in the report.
func Audit(ctx context.Context, url string, brokers []string) (audit.Report, error) {
	rows, err := committed(ctx, url)
	if err != nil {
		return audit.Report{}, fmt.Errorf("audit: %w", err)
	}
	log, err := kafkatest.ReadAll(ctx, brokers, Topics...)
	if err != nil {
		return audit.Report{}, fmt.Errorf("audit: %w", err)
	}
	sequences := make(map[string]int64, len(rows))
	for _, row := range rows {
		sequences[row.ID] = row.Sequence
	}
	var wrong error
	records := make([]audit.Record, len(log))
	for i, r := range log {
		records[i] = audit.Record{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key),
			ID: Header(r, "id"), Position: Header(r, "walrelay.lsn"),
		}
		sequence, known := sequences[records[i].ID]
		if want := fmt.Sprintf(`{"sequence": %d}`, sequence); known && string(r.Value) != want {
			wrong = fmt.Errorf("audit: %v has the payload %s, its row %s", records[i], r.Value, want)
		}
		if want := PartitionOf(string(r.Key)); r.Partition != want {
			wrong = fmt.Errorf("audit: %v: key %s belongs into partition %d", records[i], r.Key, want)
		}
	}
	return audit.Compare(rows, records), wrong
}

// committed are the rows of all outbox tables, partitions that were detached among them.
func committed(ctx context.Context, url string) ([]audit.Row, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is lost by that
	found, err := conn.Query(ctx, `SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relname ~ '^outbox(_parts_[0-9]+)?$'`)
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, table := range tables {
		parts = append(parts, fmt.Sprintf(`SELECT id::text, 'outbox.event.' || aggregatetype, aggregateid, sequence FROM %s WHERE type <> '%s'`,
			table, noEvent))
	}
	found, err = conn.Query(ctx, strings.Join(parts, " UNION ALL "))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[audit.Row])
}

// Header is the value of the first header of that name, empty where there is none.
func Header(r kafkatest.Record, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// PartitionOf is where Kafka's own clients put a key in a topic of kafkatest.Partitions; by another implementation than
// walrelay's.
func PartitionOf(key string) int32 {
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte(key)}, kafkatest.Partitions))
}
