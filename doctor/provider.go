package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// provider is where a Postgres runs, and how settings are made there.
type provider struct {
	name string
	// logical is how wal_level becomes logical, replication what gives a role (%s) the right to replicate, and parameter how
	// another setting (%s) is set to a value (%s).
	logical, replication, parameter string
	// note is what one should know of slots there; empty: nothing.
	note string
}

// ownServer is a server with a superuser of one's own.
var ownServer = provider{
	name:        "a server of one's own",
	logical:     "ALTER SYSTEM SET wal_level = logical; then restart Postgres",
	replication: "ALTER ROLE %s REPLICATION;",
	parameter:   "ALTER SYSTEM SET %s = '%s'; SELECT pg_reload_conf();",
}

// providers by a role that exists only there.
var providers = []struct {
	role string
	provider
}{
	{"rds_superuser", provider{
		name:        "Amazon RDS or Aurora",
		logical:     "set rds.logical_replication = 1 in the parameter group, then reboot the instance",
		replication: "GRANT rds_replication TO %s;",
		parameter:   "set %s = %s in the parameter group",
	}},
	{"cloudsqlsuperuser", provider{
		name:        "Google Cloud SQL",
		logical:     "gcloud sql instances patch INSTANCE --database-flags=cloudsql.logical_decoding=on (this restarts it, and replaces the other flags: list them too)",
		replication: "ALTER ROLE %s REPLICATION;",
		parameter:   "gcloud sql instances patch INSTANCE --database-flags=%s=%s (this replaces the other flags: list them too)",
	}},
	{"azure_pg_admin", provider{
		name:        "Azure Database for PostgreSQL",
		logical:     "az postgres flexible-server parameter set --name wal_level --value logical, then restart the server",
		replication: "ALTER ROLE %s REPLICATION;",
		parameter:   "az postgres flexible-server parameter set --name %s --value %s",
		note:        "max_slot_wal_keep_size cannot be set here: alert on free storage, since a relay that stays away fills the disk",
	}},
	{"supabase_admin", provider{
		name:        "Supabase",
		logical:     "it is logical on every project: is this the right server?",
		replication: "ALTER ROLE %s REPLICATION;",
		parameter:   "supabase postgres-config update --config %s=%s",
		note:        "use the direct connection (db.<project>.supabase.co:5432), not the pooler, which cannot carry replication",
	}},
	{"neon_superuser", provider{
		name:        "Neon",
		logical:     "Settings of the project, Logical Replication, Enable",
		replication: "make the role in the console: such roles may replicate (role %s)",
		parameter:   "ask Neon for %s = %s",
		note:        "a slot that nobody uses for about 40 hours is removed, a branch restore removes slots, and a connected relay keeps the compute awake",
	}},
	{"streaming_replica", provider{
		name:        "CloudNativePG",
		logical:     "spec.postgresql.parameters: {wal_level: logical} of the Cluster",
		replication: "ALTER ROLE %s REPLICATION;",
		parameter:   "spec.postgresql.parameters: {%s: '%s'} of the Cluster",
	}},
}

// findProvider looks which roles there are.
func findProvider(ctx context.Context, conn *pgx.Conn) (provider, error) {
	for _, p := range providers {
		var exists bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, p.role).Scan(&exists); err != nil {
			return provider{}, fmt.Errorf("look who runs the server: %w", err)
		}
		if exists {
			return p.provider, nil
		}
	}
	return ownServer, nil
}

// set is how a setting is made.
func (p provider) set(name, value string) string { return fmt.Sprintf(p.parameter, name, value) }

// mayReplicate is what gives a role the right to replicate. role is quoted.
func (p provider) mayReplicate(role string) string { return fmt.Sprintf(p.replication, role) }
