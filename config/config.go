package config

import (
	"time"

	"github.com/walrelay/walrelay/admin"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// Config is the configuration of walrelay. Default has its defaults; the comments of the fields are the reference that
// docs/configuration.md and walrelay.example.yaml are made of.
type Config struct {
	// Postgres is the server that has the outbox, and what walrelay uses there.
	Postgres Postgres `yaml:"postgres"`
	// Tables are the outbox tables, all read through one slot. In the file an entry is a name (schema.table) or a
	// mapping with the keys below. The variable and the flag take names only; a table that the file describes keeps
	// its description.
	Tables []Table `yaml:"tables"`
	// Messages is an outbox without a table: events that an application writes into the log with walrelay.emit, or with
	// pg_logical_emit_message(true, prefix, envelope). For messages alone, tables is []. It also takes the keys of a table
	// (preset to types); the columns that those name are the members of the envelope.
	Messages Messages `yaml:"messages"`
	// Ignore lists tables (schema.table) whose rows may be in the publication without being relayed. Rows of any other
	// unknown table stop the relay, since they could be events under a new table name.
	Ignore []string `yaml:"ignore"`
	// Kafka is the cluster, and how to produce to it.
	Kafka Kafka `yaml:"kafka"`
	// HTTP is where health, metrics and status are served.
	HTTP HTTP `yaml:"http"`
	// Log is what is logged to standard error.
	Log Log `yaml:"log"`
	// Checkpoint is the row in walrelay.checkpoint that says how far the relay has come.
	Checkpoint Checkpoint `yaml:"checkpoint"`
	// SlotWatch is how much log the slot may keep on the server before walrelay says so.
	SlotWatch SlotWatch `yaml:"slot_watch"`
	// OnStop is what becomes of walrelay run when a person is needed: exit, with code 3, or wait, which keeps the pages and
	// metrics, unready, and begins anew every 30s until the remedy was applied.
	OnStop string `yaml:"on_stop"`
	// OnPoison is what becomes of an event that can never be published as it is (too large, an illegal topic name, no
	// aggregate type): halt, so that nothing overtakes it until a person has skipped or mended it, or dead_letter, which
	// publishes it to dead_letter_topic and goes on: the order of its key is given up then.
	OnPoison string `yaml:"on_poison"`
	// DeadLetterTopic takes these events, with the reason as a header, and without the value where that is too large.
	DeadLetterTopic string `yaml:"dead_letter_topic"`
	// DrainTimeout is how long a stop (SIGTERM) waits for Kafka to acknowledge what is under way. 1s to 10m.
	DrainTimeout time.Duration `yaml:"drain_timeout"`

	from map[string]string // where the value of a key comes from; a key that is absent has its default
}

// Postgres is the section postgres.
type Postgres struct {
	// URL is the connection string, as libpq takes it: postgres://user:password@host:5432/database?sslmode=verify-full.
	// The role needs REPLICATION and the grants that walrelay init --sql lists, nothing on the outbox tables. PGPASSWORD,
	// PGPASSFILE and the other variables of libpq fill in what it leaves out.
	URL ConnString `yaml:"url"`
	// URLFile is a file with the connection string, in place of postgres.url.
	URLFile string `yaml:"url_file"`
	// Password goes before the one in postgres.url.
	Password Secret `yaml:"password"`
	// PasswordFile is a file with the password, in place of postgres.password. It is read before each connection, so that a
	// rotated password is used without a restart; so is the password in postgres.url_file.
	PasswordFile string `yaml:"password_file"`
	// PasswordCommand is a program that prints the password, and its arguments, separated by blanks, without a shell. It is
	// run before each connection and has 10s. For tokens that live for minutes.
	PasswordCommand string `yaml:"password_command"`
	// Slot is the name of the replication slot. Empty: walrelay_<database>. It is made at the first start and then kept;
	// another name means a new start.
	Slot string `yaml:"slot"`
	// Publication is the name of the publication. Empty: the name of the slot.
	Publication string `yaml:"publication"`
	// WALSenderTimeout is wal_sender_timeout of our own session, after which the server gives up a dead connection and
	// frees the slot for a standby. 5s to 1h.
	WALSenderTimeout time.Duration `yaml:"wal_sender_timeout"`
	// LogicalDecodingWorkMem is logical_decoding_work_mem of our session, such as 256MB: transactions above it are
	// spilled to disk while they are decoded. Empty: the server's setting.
	LogicalDecodingWorkMem string `yaml:"logical_decoding_work_mem"`
	// MaxEventBytes is the largest row that is read; a larger one is skipped on the wire and counts as an event that
	// cannot be published. 64KiB to 1GiB.
	MaxEventBytes Size `yaml:"max_event_bytes"`
}

// Table is one entry of tables.
type Table struct {
	// Name is the name of the table, as schema.table without quotes.
	Name string `yaml:"name"`
	// Route is how its rows become records.
	Route router.Config `yaml:",inline"`
}

// Messages is the section messages.
type Messages struct {
	// Enabled turns it on. Any role of the database can write such messages, under any prefix.
	Enabled bool `yaml:"enabled"`
	// Prefix is what events are written under. Messages under another one are not ours, and those under this one that are
	// in no transaction are no events: they are counted and left out.
	Prefix string `yaml:"prefix"`
	// Topics are the only topics that messages may go to. A * at the end stands for any rest.
	Topics []string `yaml:"topics"`
	// OnPoison is what becomes of a message that can never be published as it is: dead_letter or halt. Since anybody can
	// write one, the default is not that of tables.
	OnPoison string `yaml:"on_poison"`
	// Route is how the members of the envelope become a record.
	Route router.Config `yaml:",inline"`
}

// Kafka is the section kafka.
type Kafka struct {
	// Brokers are the addresses (host:port) that are asked first; the others are learned from them.
	Brokers []string `yaml:"brokers"`
	// ClientID is the name in the brokers' logs and quotas.
	ClientID string `yaml:"client_id"`
	// TLS is how connections are encrypted.
	TLS TLS `yaml:"tls"`
	// SASL is how walrelay logs in.
	SASL SASL `yaml:"sasl"`
	// Topics is about topics that do not exist.
	Topics Topics `yaml:"topics"`
	// Compression of batches: none, gzip, snappy, lz4 or zstd.
	Compression string `yaml:"compression"`
	// BatchBytes closes a batch at this size before compression. 1KiB to 1MiB. A topic that allows less gets less.
	BatchBytes Size `yaml:"batch_bytes"`
	// Linger holds a record back, so that batches grow where thousands of topics get a record now and then. 0s to 1s.
	// With 0s batches still grow by themselves while a request is under way.
	Linger time.Duration `yaml:"linger"`
	// MaxInFlightBytes bounds what is sent or waiting and not yet acknowledged; then reading pauses, and Postgres keeps
	// the rest. 64KiB to 1GiB.
	MaxInFlightBytes Size `yaml:"max_in_flight_bytes"`
	// MaxInFlightRecords bounds the number of these records.
	MaxInFlightRecords int `yaml:"max_in_flight_records"`
	// MaxRecordBytes is the largest record that is sent; a larger one cannot be published. 1KiB to 1GiB; brokers drop a
	// connection at socket.request.max.bytes, 100MiB.
	MaxRecordBytes Size `yaml:"max_record_bytes"`
	// Resume is how each event is published once after an unclean stop. prefer looks what the topics have, and where there is
	// no right to that (Read on the topic, Write on the transactional id) some events come twice. require waits
	// for the right instead. off never looks and puts no markers into topics.
	Resume string `yaml:"resume"`
	// HaltRetry is how often a topic or record that cannot be published is tried again. 100ms to 1h.
	HaltRetry time.Duration `yaml:"halt_retry"`
	// DialTimeout bounds connecting, TLS and login together. 100ms to 1m.
	DialTimeout time.Duration `yaml:"dial_timeout"`
	// RequestTimeout bounds the wait for one answer. Then the connection is closed and the batch sent again with the same
	// sequence number. 1s to 5m.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// MetadataMaxAge is how often metadata is asked for when nothing is wrong, which is how new partitions are found.
	// 100ms to 1h.
	MetadataMaxAge time.Duration `yaml:"metadata_max_age"`
}

// TLS is the section kafka.tls. The files are read before each connection, so that they can be renewed without a restart.
type TLS struct {
	// Enabled turns TLS on.
	Enabled bool `yaml:"enabled"`
	// CAFile has the certificates (PEM) that may sign the brokers' ones. Empty: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile is our own certificate (PEM), for brokers that want one. It needs kafka.tls.key_file.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the private key (PEM, not encrypted) of kafka.tls.cert_file.
	KeyFile string `yaml:"key_file"`
	// ServerName is the name that the brokers' certificates must have. Empty: the host of each broker.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify accepts any certificate: whoever is in between can read and change everything. For tests.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

// SASL is the section kafka.sasl.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Empty: no login. PLAIN and OAUTHBEARER without TLS
	// send the secret in the clear.
	Mechanism string `yaml:"mechanism"`
	// Username to log in with.
	Username string `yaml:"username"`
	// Password to log in with.
	Password Secret `yaml:"password"`
	// PasswordFile is a file with the password, in place of kafka.sasl.password. It is read before each connection.
	PasswordFile string `yaml:"password_file"`
	// PasswordCommand is a program that prints the password, and its arguments, separated by blanks, without a shell. It is
	// run before each connection and has 10s.
	PasswordCommand string `yaml:"password_command"`
	// TokenURL is the address of the server that gives a token for kafka.sasl.username (the client id) and
	// kafka.sasl.password (its secret), with grant type client_credentials. It is https, or http to this machine. Only for
	// OAUTHBEARER, where without it kafka.sasl.password, or its file or command, is the token itself.
	TokenURL Endpoint `yaml:"token_url"`
	// TokenScope is the scope that is asked for at kafka.sasl.token_url.
	TokenScope string `yaml:"token_scope"`
	// TokenCAFile has the certificates (PEM) that may sign that of kafka.sasl.token_url. Empty: those of the system.
	TokenCAFile string `yaml:"token_ca_file"`
}

// Topics is the section kafka.topics.
type Topics struct {
	// Create makes topics that are missing. Otherwise the broker may do it (auto.create.topics.enable), else the relay
	// halts and names the command that makes the topic.
	Create bool `yaml:"create"`
	// Partitions of a topic that walrelay makes. -1: the broker's num.partitions.
	Partitions int32 `yaml:"partitions"`
	// ReplicationFactor is the number of replicas of a topic that walrelay makes. -1: the broker's default.replication.factor.
	ReplicationFactor int16 `yaml:"replication_factor"`
	// Config are settings of a topic that walrelay makes, such as retention.ms: "604800000".
	Config map[string]string `yaml:"config"`
	// Wait is how long a topic may be missing before it counts as halted. 100ms to 1m.
	Wait time.Duration `yaml:"wait"`
}

// HTTP is the section http.
type HTTP struct {
	// Listen is the address to serve on, host:port; "off" serves nothing. Loopback by default, since nobody needs a token by
	// default.
	Listen string `yaml:"listen"`
	// Token is what requests must carry, but for /healthz and /readyz (which then does not say why): "Authorization: Bearer
	// <token>". Without a token nothing can be changed over HTTP.
	Token Secret `yaml:"token"`
	// TokenFile is a file with the token, in place of http.token. It is read for each request.
	TokenFile string `yaml:"token_file"`
	// CertFile is the certificate (PEM) to serve HTTPS with. It needs http.key_file. Both are read for each connection.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the private key (PEM, not encrypted) of http.cert_file.
	KeyFile string `yaml:"key_file"`
}

// Log is the section log.
type Log struct {
	// Level is debug, info, warn or error. From info on, a line is written only when something changes.
	Level string `yaml:"level"`
	// Format is json, console, or auto: console on a terminal, json otherwise.
	Format string `yaml:"format"`
}

// Checkpoint is the section checkpoint.
type Checkpoint struct {
	// SaveInterval is how often the row is written at most, and so how far the slot's position may trail. 100ms to 1m.
	SaveInterval time.Duration `yaml:"save_interval"`
}

// SlotWatch is the section slot_watch.
type SlotWatch struct {
	// WarnBytes is the most that is kept without a word in the log, the status and the metric walrelay_slot_watch. Where
	// max_slot_wal_keep_size sets a limit, half of it is the same.
	WarnBytes Size `yaml:"warn_bytes"`
	// UnreadyBytes is the most that is kept before /readyz fails as well. Four fifths of max_slot_wal_keep_size are the same.
	UnreadyBytes Size `yaml:"unready_bytes"`
}

// Default is the configuration without any source. It lacks only postgres.url and kafka.brokers.
func Default() Config {
	return Config{
		Postgres: Postgres{
			WALSenderTimeout: replication.DefaultWALSenderTimeout,
			MaxEventBytes:    replication.DefaultMaxEventBytes,
		},
		Tables:   []Table{{Name: "public.outbox"}},
		Messages: Messages{Prefix: "walrelay", OnPoison: "dead_letter"},
		Kafka: Kafka{
			ClientID:           kafka.DefaultClientID,
			Topics:             Topics{Partitions: -1, ReplicationFactor: -1, Wait: kafka.DefaultTopicWait},
			Compression:        "none",
			BatchBytes:         kafka.DefaultBatchBytes,
			MaxInFlightBytes:   kafka.DefaultMaxInFlightBytes,
			MaxInFlightRecords: kafka.DefaultMaxInFlightRecords,
			MaxRecordBytes:     kafka.DefaultMaxRecordBytes,
			Resume:             string(kafka.ResumePrefer),
			HaltRetry:          kafka.DefaultHaltRetry,
			DialTimeout:        kafka.DefaultDialTimeout,
			RequestTimeout:     kafka.DefaultRequestTimeout,
			MetadataMaxAge:     kafka.DefaultMetadataMaxAge,
		},
		HTTP:       HTTP{Listen: admin.DefaultListen},
		Log:        Log{Level: "info", Format: "auto"},
		Checkpoint: Checkpoint{SaveInterval: time.Second},
		SlotWatch:  SlotWatch{WarnBytes: relay.DefaultSlotWarn, UnreadyBytes: relay.DefaultSlotUnready},
		OnStop:     "exit",
		OnPoison:   "halt",

		DeadLetterTopic: "walrelay.dead-letter",
		DrainTimeout:    10 * time.Second,
	}
}
