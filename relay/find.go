package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// Place is where an event was found.
type Place struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"` // of the record
	// Event is its identity, from the header walrelay.lsn; empty: another program has published it.
	Event string `json:"event,omitempty"`
	// DeadLetter is why it went to the dead-letter topic; empty: this is its own topic.
	DeadLetter string `json:"dead_letter,omitempty"`
}

// Whereabouts is what Find knows of an event.
type Whereabouts struct {
	// Places are the records of it, none where it was not published since the time that was looked from.
	Places []Place `json:"places"`
	// Table has its row; empty: none has, or the role may not read it.
	Table string `json:"table,omitempty"`
	// Waiting: the row's transaction is not known to be in Kafka, so that the event is still to come from the log.
	Waiting bool `json:"waiting"`
	// Topics were looked through, from Since on.
	Topics []string  `json:"topics"`
	Since  time.Time `json:"since"`
}

// Find looks for an event by its id (the header id) or by its identity (the header walrelay.lsn): in the topics that events
// may go to, from a time on, in the dead-letter topic, and in the tables. It needs the right to read topics; without that to
// read tables it cannot tell whether an event is still to come. topics are looked through in place of those that the
// configuration tells, unless there are none.
func Find(ctx context.Context, cfg Config, id string, since time.Time, topics []string, log *zap.Logger) (Whereabouts, error) {
	f := finder{cfg: cfg.withDefaults(), id: id, found: Whereabouts{Places: []Place{}, Topics: topics, Since: since}}
	address, err := f.cfg.Postgres.Reading()
	if err != nil {
		return f.found, err
	}
	conn, err := pgx.ConnectConfig(ctx, address)
	if err != nil {
		return f.found, replication.RefusedConnection(err, address)
	}
	defer closeConn(conn)
	if err := f.rows(ctx, conn); err != nil {
		return f.found, err
	}
	if err := f.choose(ctx); err != nil {
		return f.found, err
	}
	reader := kafka.NewLogReader(f.cfg.Kafka, log)
	defer reader.Close()
	return f.found, reader.Read(ctx, f.found.Topics, since, f.look)
}

// finder is one call of Find.
type finder struct {
	cfg       Config
	id        string
	idHeaders []string // of the tables
	own       string   // topic of the row that was found
	found     Whereabouts
}

// rows looks for the event's row in the tables.
func (f *finder) rows(ctx context.Context, conn *pgx.Conn) error {
	for _, configured := range f.cfg.Tables {
		table, err := replication.FindTable(ctx, conn, configured.Name)
		if err != nil || table == nil {
			return err
		}
		f.idHeaders = append(f.idHeaders, configured.Route.IDHeader(table.Relation))
		err = f.row(ctx, conn, table, configured)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
			continue
		}
		if err != nil {
			return err
		}
	}
	if f.cfg.Messages != nil {
		f.idHeaders = append(f.idHeaders, "id")
	}
	return nil
}

// row looks into one table. The row's transaction is in Kafka for sure when it is below the horizon of the checkpoint row.
func (f *finder) row(ctx context.Context, conn *pgx.Conn, table *replication.Table, configured Table) error {
	quoted := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	columns := configured.Route.ColumnsOf(table.Relation)
	slot, _ := f.cfg.Postgres.Names(conn.Config().Database)
	var routed *string
	var waiting bool
	// The xmin of a row has no epoch: it is compared by age, as Postgres does.
	err := conn.QueryRow(ctx, fmt.Sprintf(`
		SELECT o.%s::text, coalesce((SELECT age(o.xmin) <= age(c.horizon::xid) FROM walrelay.checkpoint c WHERE c.slot = $2), true)
		FROM %s o WHERE o.%s::text = $1 LIMIT 1`, quoted(configured.Route.RoutedBy(table.Relation)),
		pgx.Identifier{table.Relation.Namespace, table.Relation.Name}.Sanitize(), quoted(columns.ID)), f.id, slot).Scan(&routed, &waiting)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the event in %s: %w", table.Name(), err)
	}
	f.found.Table, f.found.Waiting = table.Name(), waiting
	if routed != nil {
		f.own, _ = configured.Route.TopicOf(table.Relation, *routed) // none where it makes no topic
	}
	return nil
}

// choose finds out which topics to look through.
func (f *finder) choose(ctx context.Context) error {
	switch {
	case len(f.found.Topics) > 0:
		return nil
	case f.own != "":
		f.found.Topics = []string{f.own}
		if f.cfg.DeadLetterTopic != "" {
			f.found.Topics = append(f.found.Topics, f.cfg.DeadLetterTopic)
		}
		return nil
	}
	cluster, err := kafka.Inspect(ctx, f.cfg.Kafka, f.cfg.MayGoTo)
	if err != nil {
		return err
	}
	for _, topic := range cluster.Topics {
		f.found.Topics = append(f.found.Topics, topic.Name)
	}
	return nil
}

// look compares one record.
func (f *finder) look(r *kafka.Record) error {
	place := Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: time.UnixMilli(r.Time).UTC()}
	match := false
	for _, h := range r.Headers {
		switch name := string(h.Name); {
		case name == router.HeaderPosition:
			place.Event = string(h.Value)
			match = match || place.Event == f.id
		case name == headerError:
			place.DeadLetter = string(h.Value)
		default:
			for _, header := range f.idHeaders {
				match = match || name == header && bytes.Equal(h.Value, []byte(f.id))
			}
		}
	}
	if !match {
		return nil
	}
	f.found.Places = append(f.found.Places, place)
	f.found.Waiting = false
	return nil
}

// TopicPatterns are the topics that events may go to, as far as the configuration tells; a final * stands for any rest.
func (c Config) TopicPatterns() []string {
	var patterns []string
	for _, table := range c.Tables {
		replacement := table.Route.Route.Replacement
		if replacement == "" {
			replacement = "outbox.event.$"
		}
		literal, _, variable := strings.Cut(replacement, "$")
		if variable {
			literal += "*"
		}
		patterns = append(patterns, literal)
	}
	if c.Messages != nil {
		patterns = append(patterns, c.Messages.Topics...)
	}
	if c.DeadLetterTopic != "" {
		patterns = append(patterns, c.DeadLetterTopic)
	}
	return patterns
}

// MayGoTo tells whether a topic is one of TopicPatterns. Where rows name whole topics, nothing can be told, and it is none.
func (c Config) MayGoTo(topic string) bool {
	for _, pattern := range c.TopicPatterns() {
		prefix, any := strings.CutSuffix(pattern, "*")
		if pattern != "*" && (topic == pattern || any && strings.HasPrefix(topic, prefix)) {
			return true
		}
	}
	return false
}
