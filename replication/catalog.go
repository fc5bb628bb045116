package replication

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/fault"
)

// SQL is the configuration of one ordinary connection to the same database: the next one must ask again, since passwords and
// certificates change. Its commits never wait for a synchronous
// standby: that can be this very relay.
func (c *Config) SQL() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(c.URL)
	if err != nil {
		return nil, urlError(err)
	}
	config.RuntimeParams["application_name"] = c.ApplicationName()
	config.RuntimeParams["synchronous_commit"] = "local"
	return config, c.adapt(&config.Config)
}

// Server is what the relay must know of the server and the database it is connected to.
type Server struct {
	// Version is server_version_num, such as 150018.
	Version int
	// InRecovery: a standby. Timeline is 0 then.
	InRecovery bool
	// SystemID is the system identifier as IDENTIFY_SYSTEM prints it; Timeline that of the WAL written now.
	SystemID string
	Timeline int32
	// Database and Role are those of the connection.
	Database    string
	DatabaseOID uint32
	Role        string
	// Superuser and Replication are attributes of Role. Hosted servers may let a role replicate by other means.
	Superuser, Replication bool
	// WALLevel is wal_level; decoding needs "logical".
	WALLevel string
	// MaxSlotWALKeepSize is how many bytes of WAL a slot may hold back before it is lost; negative: no limit.
	MaxSlotWALKeepSize int64
	// WALSenderTimeout is the server's own; 0: none. The stream sets another one for itself.
	WALSenderTimeout time.Duration
	// SynchronousStandbyNames is the setting of that name, see the function WaitsFor.
	SynchronousStandbyNames string
	// SynchronizedStandbySlots names the standbys that must have the WAL before we get it (17 and later).
	SynchronizedStandbySlots string
}

const serverSQL = `
	SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(), control.system_identifier,
	       CASE WHEN pg_is_in_recovery() THEN 0
	            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer END,
	       d.datname, d.oid, r.rolname, r.rolsuper, r.rolreplication,
	       (SELECT jsonb_object_agg(name, setting) FROM pg_settings WHERE name IN ('wal_level', 'max_slot_wal_keep_size',
	           'wal_sender_timeout', 'synchronous_standby_names', 'synchronized_standby_slots'))
	FROM pg_control_system() control, pg_database d, pg_roles r
	WHERE d.datname = current_database() AND r.rolname = current_user`

// InspectServer asks for the facts of Server. Any role may.
func InspectServer(ctx context.Context, conn *pgx.Conn) (*Server, error) {
	var s Server
	var systemID int64
	var settings []byte
	err := conn.QueryRow(ctx, serverSQL).Scan(&s.Version, &s.InRecovery, &systemID, &s.Timeline,
		&s.Database, &s.DatabaseOID, &s.Role, &s.Superuser, &s.Replication, &settings)
	if err == nil {
		err = s.settings(settings)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect server: %w", err)
	}
	s.SystemID = strconv.FormatUint(uint64(systemID), 10)
	return &s, nil
}

// settings reads the values in the units of pg_settings: MB for the WAL to keep, ms for the timeout.
func (s *Server) settings(text []byte) error {
	var values map[string]string
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	megabytes, err := strconv.ParseInt(values["max_slot_wal_keep_size"], 10, 64)
	if err != nil {
		return fmt.Errorf("max_slot_wal_keep_size: %w", err)
	}
	millis, err := strconv.ParseInt(values["wal_sender_timeout"], 10, 64)
	if err != nil {
		return fmt.Errorf("wal_sender_timeout: %w", err)
	}
	s.MaxSlotWALKeepSize = megabytes << 20
	s.WALSenderTimeout = time.Duration(millis) * time.Millisecond
	s.WALLevel = values["wal_level"]
	s.SynchronousStandbyNames = values["synchronous_standby_names"]
	s.SynchronizedStandbySlots = values["synchronized_standby_slots"]
	return nil
}

// Usable tells whether logical decoding is possible: on a primary (else ErrStandby), with wal_level=logical.
func (s *Server) Usable() error {
	if s.InRecovery {
		return ErrStandby
	}
	if s.WALLevel != "logical" {
		return &SetupError{
			Code:    fault.WALLevel,
			Problem: fmt.Sprintf("wal_level is %s, logical decoding needs logical", s.WALLevel),
			Remedy: "ALTER SYSTEM SET wal_level = logical; then restart Postgres (RDS: rds.logical_replication = 1; " +
				"Cloud SQL: cloudsql.logical_decoding = on)",
		}
	}
	return nil
}

// standbyName is one word of synchronous_standby_names: quoted, or not.
var standbyName = regexp.MustCompile(`"(?:[^"]|"")*"|[^\s,()"]+`)

// WaitsFor tells whether, with this synchronous_standby_names, commits may wait for the stream of the given
// application_name as if it were a synchronous standby. Streaming would then block every commit, the save of our own
// row first of all.
func WaitsFor(standbyNames, applicationName string) bool {
	for _, word := range standbyName.FindAllString(standbyNames, -1) {
		name := word
		if strings.HasPrefix(word, `"`) {
			name = strings.ReplaceAll(word[1:len(word)-1], `""`, `"`)
		}
		if name == "*" || strings.EqualFold(name, applicationName) {
			return true
		}
	}
	return false
}
