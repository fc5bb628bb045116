package replication

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/fault"
)

// Config tells how to reach Postgres and which slot to read.
type Config struct {
	// URL is a connection string, URL or keyword form, as libpq takes it.
	URL string
	// Password is asked before each connection, and its answer goes before the password of URL. Nil: that of URL.
	Password func() (string, error)
	// Slot is the replication slot's name. Empty: walrelay_<database>.
	Slot string
	// Publication is the publication's name. Empty: the slot's name.
	Publication string
	// Messages asks for pg_logical_emit_message records too.
	Messages bool
	// WALSenderTimeout is set for our own session, so that a server's 0 (a dead host keeps the slot for many
	// minutes) or 5 s (shorter than a usual status interval) does not decide. Default 60 s.
	WALSenderTimeout time.Duration
	// DecodingWorkMem is logical_decoding_work_mem of our session, such as "256MB". Empty: the server's.
	DecodingWorkMem string
	// MaxEventBytes bounds one message of the stream; a longer one is read over without being kept, and its
	// first bytes are handed on. Default 16 MiB.
	MaxEventBytes int
	// Instance marks our own connections, in application_name.
	Instance string
	// Dial replaces the TCP dial; for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Defaults of Config.
const (
	DefaultWALSenderTimeout = time.Minute
	DefaultMaxEventBytes    = 16 << 20
)

func (c *Config) timeout() time.Duration {
	if c.WALSenderTimeout > 0 {
		return c.WALSenderTimeout
	}
	return DefaultWALSenderTimeout
}

func (c *Config) maxEvent() int {
	if c.MaxEventBytes > 0 {
		return c.MaxEventBytes
	}
	return DefaultMaxEventBytes
}

// StatusInterval is how often a status must go out at the latest: a third of the session's
// wal_sender_timeout, at most 10 s.
func (c *Config) StatusInterval() time.Duration {
	return min(c.timeout()/3, 10*time.Second)
}

// textSession is what decides the text of values. It must not depend on the role's or the database's own settings: a
// role with DateStyle=German prints dates nobody can parse.
func textSession() map[string]string {
	return map[string]string{
		"client_encoding":    "UTF8",
		"TimeZone":           "UTC",
		"DateStyle":          "ISO",
		"IntervalStyle":      "postgres",
		"extra_float_digits": "3",
		"bytea_output":       "hex",
	}
}

// session is what decides the text of values and the life of the connection.
func (c *Config) session() map[string]string {
	settings := textSession()
	settings["replication"] = "database"
	settings["application_name"] = c.ApplicationName()
	settings["client_min_messages"] = "warning" // on 18 a missing publication is only a warning
	settings["wal_sender_timeout"] = fmt.Sprintf("%dms", c.timeout().Milliseconds())
	if c.DecodingWorkMem != "" {
		settings["logical_decoding_work_mem"] = c.DecodingWorkMem
	}
	return settings
}

// ApplicationName is what our connections are called on the server.
func (c *Config) ApplicationName() string {
	if c.Instance == "" {
		return "walrelay"
	}
	return "walrelay/" + c.Instance
}

// parse reads what the URL names (pass file, service file, certificates) anew, as each connection does.
func (c *Config) parse() (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(c.URL)
	if err != nil {
		return nil, urlError(err)
	}
	for name, value := range c.session() {
		config.RuntimeParams[name] = value
	}
	return config, c.adapt(config)
}

func (c *Config) adapt(config *pgconn.Config) error {
	// With several hosts the first that answers is not good enough: after a switchover it is the old primary.
	several := slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != config.Host || f.Port != config.Port
	})
	if several && config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	if c.Dial != nil {
		config.DialFunc = c.Dial
	}
	if c.Password == nil {
		return nil
	}
	password, err := c.Password()
	if err != nil {
		return &ConnectError{Code: fault.PostgresSecret, Err: err, Remedy: "this is asked again before each connection"}
	}
	config.Password = password
	return nil
}

// urlError words an unreadable URL; pgconn leaves the password out. A certificate that cannot be read was readable when the
// configuration was checked: somebody renews it at this moment.
func urlError(err error) error {
	if strings.Contains(err.Error(), "failed to configure TLS") {
		return &ConnectError{Code: fault.PostgresTLS, Err: err, Remedy: "check the certificate files that postgres.url names"}
	}
	return &SetupError{
		Code:    fault.PostgresURL,
		Problem: "the Postgres URL cannot be read",
		Remedy:  "want postgres://user:password@host:5432/database",
		Err:     err,
	}
}
