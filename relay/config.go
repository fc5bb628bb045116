package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// Table is one outbox table and how its rows become records.
type Table struct {
	// Name is the table's name, schema.table.
	Name string
	// Route is the mapping of its rows.
	Route router.Config
}

// Messages is the source of events that have no table: transactional pg_logical_emit_message calls. Any role of the
// database may make them, so that topics are listed and poison has a policy of its own.
type Messages struct {
	// Prefix is the one that ours have; messages under another one belong to somebody else.
	Prefix string
	// Topics are the topics that they may go to; a final * stands for any rest.
	Topics []string
	// Route is the mapping of their content, see router.EnvelopeRoute.
	Route router.Config
	// DeadLetterTopic is as in Config, for messages alone.
	DeadLetterTopic string
}

// Config is everything a relay needs. Zero durations and sizes take the defaults below.
type Config struct {
	// Postgres tells the server, slot and publication.
	Postgres replication.Config
	// Kafka tells the cluster and how to produce.
	Kafka kafka.Config
	// Tables are the outbox tables, all read through one slot. None: public.outbox, unless there are messages.
	Tables []Table
	// Messages is the outbox without a table. Nil: off.
	Messages *Messages
	// Ignore lists tables (schema.table) that may appear in the stream and are not relayed.
	Ignore []string
	// DeadLetterTopic takes events that can never be published as they are (on_poison: dead_letter); the order of their
	// key is given up. Empty: such an event halts the relay.
	DeadLetterTopic string
	// WaitStopped keeps Run from returning what needs a person: it begins anew every half a minute, which heals where the
	// remedy was applied.
	WaitStopped bool
	// SlotWatch tells when the log that the slot keeps is too much.
	SlotWatch SlotWatch
	// SaveInterval is how often the checkpoint row is written at most. Default 1 s.
	SaveInterval time.Duration
	// DrainTimeout bounds the wait for acknowledgements at shutdown. Default 10 s.
	DrainTimeout time.Duration
	// MaxMessages and MaxTransactions bound what lies beyond the confirmed prefix, so that one stuck
	// partition does not let the rest run away. Defaults 1,000,000 and 200,000.
	MaxMessages, MaxTransactions int
}

// routing is a hash of what makes records of rows.
func (c Config) routing() string {
	text, err := json.Marshal([]any{c.Tables, c.Messages, c.DeadLetterTopic})
	if err != nil {
		panic(err) // plain structs
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:8])
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.SaveInterval, time.Second)
	set(&c.Postgres.WALSenderTimeout, replication.DefaultWALSenderTimeout)
	set(&c.DrainTimeout, 10*time.Second)
	c.Postgres.Messages = c.Messages != nil
	if len(c.Tables) == 0 && c.Messages == nil {
		c.Tables = []Table{{Name: replication.DefaultTable}}
	}
	if c.SlotWatch.Warn == 0 {
		c.SlotWatch.Warn = DefaultSlotWarn
	}
	if c.SlotWatch.Unready == 0 {
		c.SlotWatch.Unready = DefaultSlotUnready
	}
	if c.MaxMessages == 0 {
		c.MaxMessages = 1_000_000
	}
	if c.MaxTransactions == 0 {
		c.MaxTransactions = 200_000
	}
	return c
}
