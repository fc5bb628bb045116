package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

const (
	// arrival is how long a test event may take.
	arrival = 30 * time.Second
	// lookAgain is how often the topic is read for it.
	lookAgain = 100 * time.Millisecond
	// testType and testPayload mark a test event for whoever reads it.
	testType, testPayload = "WalrelayTest", `{"walrelay": "doctor", "test": true}`
)

// roundTrip sends a test event through the relay that runs, and deletes its row again. The topic must be there: a missing
// one would halt the relay.
func (e *examination) roundTrip(ctx context.Context) error {
	const check = "test event"
	table, configured, err := e.testTable()
	if err != nil {
		e.say(Fail, check, err.Error(), "")
		return nil
	}
	topic, err := configured.Route.TopicOf(table.Relation, e.options.TestValue)
	if err != nil {
		e.say(Fail, check, err.Error(), "")
		return nil
	}
	found, err := kafka.Inspect(ctx, e.cfg.Kafka, func(name string) bool { return name == topic })
	if err != nil {
		return err
	}
	if len(found.Topics) == 0 {
		e.say(Fail, check, fmt.Sprintf("topic %s does not exist, so a test event for it was not inserted", topic), "name a value whose topic exists: --test-event <value>")
		return nil
	}
	since := time.Now().Add(-skewed)
	id, err := e.insertTest(ctx, table, configured)
	if err != nil {
		e.say(Fail, check, fmt.Sprintf("it cannot be inserted into %s: %v", table.Name(), err),
			fmt.Sprintf("GRANT SELECT, INSERT, DELETE ON %s TO %s; or run doctor as the owner of the table", table.Name(), pgx.Identifier{e.server.Role}.Sanitize()))
		return nil
	}
	committed := time.Now()
	where, err := e.await(ctx, topic, configured.Route.IDHeader(table.Relation), id, since)
	switch {
	case err != nil:
		e.fail(check, err, "")
	case where == "":
		e.say(Fail, check, fmt.Sprintf("event %s was committed and has not come to topic %s in %v", id, topic, arrival), "is a relay streaming? walrelay status")
	default:
		e.ok(check, fmt.Sprintf("event %s came to %s in %v", id, where, time.Since(committed).Round(time.Millisecond)))
	}
	return e.deleteTest(ctx, table, configured, id)
}

func (e *examination) testTable() (*replication.Table, relay.Table, error) {
	for _, table := range e.tables {
		if e.options.TestTable != "" && table.Name() != e.options.TestTable {
			continue
		}
		at := slices.IndexFunc(e.cfg.Tables, func(t relay.Table) bool { return t.Name == table.Name() })
		return table, e.cfg.Tables[at], nil
	}
	return nil, relay.Table{}, errors.New("there is no outbox table to insert it into")
}

// insertTest inserts the event and returns its id. A column of the id that makes one by itself is let do so.
func (e *examination) insertTest(ctx context.Context, table *replication.Table, configured relay.Table) (id string, err error) {
	columns := configured.Route.ColumnsOf(table.Relation)
	values := map[string]string{
		columns.Key: "walrelay-doctor", columns.Type: testType, columns.Payload: testPayload,
		configured.Route.RoutedBy(table.Relation): e.options.TestValue,
	}
	var makesID bool
	err = e.conn.QueryRow(ctx, `SELECT atthasdef OR attidentity <> '' FROM pg_attribute WHERE attrelid = $1 AND attname = $2`,
		table.Relation.ID, columns.ID).Scan(&makesID)
	if err != nil {
		return "", err
	}
	if !makesID {
		values[columns.ID] = newUUID()
	}
	var names, literals []string
	for _, column := range table.Relation.Columns {
		if value, ok := values[column.Name]; ok {
			names = append(names, pgx.Identifier{column.Name}.Sanitize())
			literals = append(literals, literal(column.Type, value))
		}
	}
	statement := fmt.Sprintf(`INSERT INTO %s (%s) VALUES (%s) RETURNING %s::text`, sqlName(table), strings.Join(names, ", "),
		strings.Join(literals, ", "), pgx.Identifier{columns.ID}.Sanitize())
	err = e.conn.QueryRow(ctx, statement).Scan(&id)
	return id, err
}

// literal is a value that a column of the type (its oid) takes.
func literal(oid uint32, value string) string {
	const uuid, smallint, integer, bigint = 2950, 21, 23, 20
	switch oid {
	case uuid:
		value = newUUID()
	case smallint, integer, bigint:
		return "0"
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// await reads the topic until the event is there; it says where, or nothing.
func (e *examination) await(ctx context.Context, topic, idHeader, id string, since time.Time) (where string, err error) {
	reader := kafka.NewLogReader(e.cfg.Kafka, nil)
	defer reader.Close()
	deadline := time.NewTimer(arrival)
	defer deadline.Stop()
	for where == "" {
		err := reader.Read(ctx, []string{topic}, since, func(r *kafka.Record) error {
			for _, h := range r.Headers {
				if string(h.Name) == idHeader && string(h.Value) == id {
					where = fmt.Sprintf("topic %s, partition %d, offset %d", r.Topic, r.Partition, r.Offset)
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-deadline.C:
			return where, nil
		case <-again.C:
		}
	}
	return where, nil
}

func (e *examination) deleteTest(ctx context.Context, table *replication.Table, configured relay.Table, id string) error {
	column := pgx.Identifier{configured.Route.ColumnsOf(table.Relation).ID}.Sanitize()
	_, err := e.conn.Exec(ctx, fmt.Sprintf(`DELETE FROM %s WHERE %s::text = $1`, sqlName(table), column), id)
	if err != nil {
		e.say(Warn, "test event", fmt.Sprintf("its row in %s could not be deleted: %v", table.Name(), err), "")
	}
	return nil
}

func sqlName(table *replication.Table) string {
	return pgx.Identifier{table.Relation.Namespace, table.Relation.Name}.Sanitize()
}
