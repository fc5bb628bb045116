package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// comparison is an audit of the configured tables, with the connections that it needs.
type comparison struct {
	*audit.Audit
	survey   *replication.Survey
	conn     *pgx.Conn // reads the tables
	reader   *kafka.LogReader
	settings kafka.Config // of the reader, and of whoever publishes behind its fence
}

// compare prepares a comparison. choose tells which rows; the rest of o is taken as it is.
func (c Config) compare(ctx context.Context, log *zap.Logger, o audit.Config, choose func(*replication.Survey) audit.Selection) (*comparison, error) {
	return c.compareAs(ctx, log, "", o, choose)
}

// compareAs is compare under a transactional id of its own: that of the relays, who are refused when it fences, and a suffix.
func (c Config) compareAs(ctx context.Context, log *zap.Logger, suffix string, o audit.Config, choose func(*replication.Survey) audit.Selection) (*comparison, error) {
	c = c.withDefaults()
	address, err := c.Postgres.Reading()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	survey, err := replication.Look(ctx, conn, c.Postgres, c.TableNames(), c.Fits)
	if err != nil {
		closeConn(conn)
		return nil, err
	}
	o.Tables = c.audited(survey)
	o.Select = choose(survey)
	o.Source = lsn.SourceOf(survey.Server.SystemID, survey.Server.DatabaseOID, survey.Publication)
	o.DeadLetterTopic = c.DeadLetterTopic
	settings := c.Kafka
	settings.TransactionalID = TransactionalID(o.Source, survey.Slot) + suffix
	reader := kafka.NewLogReader(settings, log)
	a, err := audit.New(o, reader)
	if err != nil {
		closeConn(conn)
		return nil, err
	}
	return &comparison{Audit: a, survey: survey, conn: conn, reader: reader, settings: settings}, nil
}

func (c *comparison) close() {
	c.reader.Close()
	closeConn(c.conn)
}

// audited are the tables with what an audit needs of them.
func (c Config) audited(survey *replication.Survey) []audit.Table {
	tables := make([]audit.Table, len(survey.Tables))
	for i, t := range survey.Tables {
		tables[i] = audit.Table{
			Relation: t.Relation, Partitioned: t.Partitioned, Route: c.Tables[i].Route, Catalog: catalogOf(t.Known),
			Filter: survey.Filters[i],
		}
	}
	return tables
}

// TransactionalID is what Kafka knows all relays of a slot by, one after the other.
func TransactionalID(source uint32, slot string) string {
	return fmt.Sprintf("walrelay/%08x/%s", source, slot)
}

// unproven chooses the rows that are not known to be in Kafka. The horizon of another server means nothing here, and
// neither does an absent one: then all rows are chosen.
func unproven(row *checkpoint.Row, systemID string) audit.Selection {
	if row == nil || row.SystemID != systemID {
		return audit.Selection{}
	}
	return audit.Selection{Horizon: audit.Horizon(row.Horizon)}
}

// within runs f in a transaction that sees one snapshot: an exported one, or that of now.
func (c *comparison) within(ctx context.Context, snapshot string, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, c.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if snapshot != "" {
			if _, err := tx.Exec(ctx, fmt.Sprintf(`SET TRANSACTION SNAPSHOT '%s'`, snapshot)); err != nil {
				return fmt.Errorf("take the slot's snapshot over: %w", err)
			}
		}
		return f(tx)
	})
}

// load reads the rows of a snapshot. It returns the end of the log behind it.
func (c *comparison) load(ctx context.Context, snapshot string) (end lsn.End, err error) {
	err = c.within(ctx, snapshot, func(tx pgx.Tx) error {
		end, err = c.Load(ctx, tx)
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		role := pgx.Identifier{c.survey.Server.Role}.Sanitize()
		err = &replication.SetupError{
			Code:    fault.RoleReading,
			Problem: "the outbox tables cannot be compared", Err: err,
			Remedy: "GRANT SELECT ON the outbox tables TO " + role + "; and where row security hides rows from it, ALTER ROLE " + role + " BYPASSRLS",
		}
	}
	return end, err
}

const insufficientPrivilege = "42501" // also of a query that row security would filter

// list names the rows that are missing.
func (c *comparison) list(ctx context.Context, each func(audit.Row) error) error {
	if c.Left() == 0 {
		return nil
	}
	return c.within(ctx, "", func(tx pgx.Tx) error { return c.Missing(ctx, tx, each) })
}

// sameCluster refuses to compare with another Kafka than the one that has the events of the slot. It returns its id.
func (c *comparison) sameCluster(ctx context.Context) (string, error) {
	cluster, err := c.reader.ClusterID(ctx)
	if err != nil || c.survey.Row == nil || c.survey.Row.KafkaClusterID == "" || c.survey.Row.KafkaClusterID == cluster {
		return cluster, err
	}
	return "", wrongCluster(c.survey.Row.KafkaClusterID, cluster)
}

// wrongCluster is for a Kafka that is not the one which has the events of the slot.
func wrongCluster(want, have string) *StopError {
	return &StopError{
		Code:   fault.KafkaCluster,
		Reason: fmt.Sprintf("the events of this slot are in Kafka cluster %s, and this is cluster %s", want, have),
		Remedy: "point kafka.brokers at the right cluster; if the move is wanted: " +
			"walrelay slot adopt --new-kafka-cluster",
	}
}
