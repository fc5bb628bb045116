package fault

import "errors"

// Code names a kind of error. It is part of the contract: it appears in the output, the log, the status and docs/errors.md.
type Code string

// The codes.
const (
	Configuration       Code = "configuration"
	Usage               Code = "usage"
	HTTPListen          Code = "http-listen"
	PostgresURL         Code = "postgres-url"
	PostgresUnreachable Code = "postgres-unreachable"
	PostgresRefused     Code = "postgres-refused"
	PostgresTLS         Code = "postgres-tls"
	PostgresSecret      Code = "postgres-secret"
	RoleReplication     Code = "role-replication"
	RoleRights          Code = "role-rights"
	RoleReading         Code = "role-reading"
	WALLevel            Code = "wal-level"
	Standby             Code = "standby"
	SynchronousStandby  Code = "synchronous-standby"
	TableMissing        Code = "table-missing"
	TableKind           Code = "table-kind"
	TableShape          Code = "table-shape"
	TableUnknown        Code = "table-unknown"
	TableNotEmpty       Code = "table-not-empty"
	Schema              Code = "schema-old"
	Subscribers         Code = "subscribers"
	Publication         Code = "publication"
	PublicationMissing  Code = "publication-missing"
	SlotName            Code = "slot-name"
	SlotMissing         Code = "slot-missing"
	SlotLost            Code = "slot-lost"
	SlotForeign         Code = "slot-foreign"
	SlotHeld            Code = "slot-held"
	SlotUnadopted       Code = "slot-unadopted"
	SlotFailover        Code = "slot-failover"
	SetupInterrupted    Code = "setup-interrupted"
	SetupUnclear        Code = "setup-unclear"
	RepairUnfinished    Code = "repair-unfinished"
	RepairNothing       Code = "repair-nothing"
	Adoption            Code = "adoption"
	Lost                Code = "events-missing"
	Unproven            Code = "events-unproven"
	History             Code = "history"
	CheckpointRow       Code = "checkpoint-row"
	CheckpointTaken     Code = "checkpoint-taken"
	KafkaCluster        Code = "kafka-cluster"
	KafkaRead           Code = "kafka-read"
	DeadLetter          Code = "dead-letter"
	Messages            Code = "messages"
	Log                 Code = "log-unreadable"
	RepairHalted        Code = "repair-halted"
	Prune               Code = "prune-refused"
	NotDone             Code = "request-open"
	Doctor              Code = "doctor-failed"
	Differences         Code = "differences"
	Unexpected          Code = "unexpected"
)

// Entry is what the catalogue says of a code.
type Entry struct {
	Code Code
	// Meaning and Remedy are for people, in Markdown.
	Meaning, Remedy string
}

// Catalogue has an entry for every code.
var Catalogue = []Entry{
	{Configuration, "The configuration is wrong or incomplete; every problem is listed with its key and its source.", "Correct the keys that are named. `walrelay config check` reports all of them without connecting to anything."},
	{Usage, "The command line is wrong.", "`walrelay <command> --help`."},
	{HTTPListen, "The address for health, metrics and status is taken, or not allowed.", "Another `http.listen`, or `off`."},
	{PostgresURL, "The connection string cannot be read.", "`postgres://user:password@host:5432/database`, special characters of the password encoded (`%2F` for `/`, `%40` for `@`)."},
	{PostgresUnreachable, "No connection to Postgres. A relay that has streamed before goes on trying.", "Check that Postgres runs, and host and port of `postgres.url`."},
	{PostgresRefused, "Postgres refuses the role: password, database, or no line in `pg_hba.conf`.", "Check user, password and database. Logical replication needs a line for the *database* in `pg_hba.conf`; the keyword `replication` does not count."},
	{PostgresTLS, "Postgres and walrelay do not agree about TLS or a certificate.", "Check `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of `postgres.url`, as the message says; verify-full wants the host's name in the certificate."},
	{PostgresSecret, "The password of Postgres cannot be had from its file or command. It is asked for again before each connection.", "Check `postgres.password_file` or the command that the configuration names."},
	{RoleReplication, "The role may not replicate.", "`ALTER ROLE … REPLICATION;` (RDS: `GRANT rds_replication TO …;`)."},
	{RoleRights, "The role lacks a right to a table of walrelay's, or for the first start one on the database or the outbox.", "The message names the statement. `walrelay init --sql --role <role>` prints all grants that are needed; `walrelay doctor` says which are missing."},
	{RoleReading, "The role may not read the outbox tables, which comparing and repairing need (relaying does not).", "`GRANT SELECT ON <table> TO <role>;`, and `ALTER ROLE <role> BYPASSRLS` where row security hides rows."},
	{WALLevel, "`wal_level` is not `logical`.", "`ALTER SYSTEM SET wal_level = logical;` and a restart (RDS: `rds.logical_replication = 1`; Cloud SQL: `cloudsql.logical_decoding = on`)."},
	{Standby, "The server is a standby; decoding on a standby is not supported.", "The address of the primary, or several hosts with `target_session_attrs=read-write`."},
	{SynchronousStandby, "`synchronous_standby_names` takes walrelay for a synchronous standby: every commit would wait for Kafka.", "Name your standbys there instead of `*`, then `SELECT pg_reload_conf()`."},
	{TableMissing, "An outbox table does not exist, or its name cannot be read.", "`walrelay init` creates it; or name yours under `tables`, as schema.table and case included."},
	{TableKind, "The rows of a table do not reach the log: it is a view, unlogged, temporary or foreign.", "Name the table that rows are inserted into; `ALTER TABLE … SET LOGGED;`."},
	{TableShape, "The columns of a table, or a changed column, do not fit the mapping. Nothing was skipped.", "Correct the columns, or `tables: columns`, and start again."},
	{TableUnknown, "A row of a table came that is neither an outbox table nor ignored; it could be events under a new name.", "Add it to `tables`, list it under `ignore`, or take it out of the publication."},
	{TableNotEmpty, "The outbox has rows that are older than the slot.", "`walrelay init --existing=publish` publishes them first; `--existing=skip` leaves them out."},
	{Schema, "The tables of schema `walrelay` are older than the program.", "`walrelay init`."},
	{Subscribers, "A publication of all tables would send a new table to subscribers that do not have it, and would stop.", "`--no-subscribers <publication>` where none of its readers is a Postgres subscription, such as Debezium; otherwise create the table at the subscribers first: the message has the statements."},
	{Publication, "The publication does not carry every outbox table as it must.", "`ALTER PUBLICATION …`, as the message says. Rows inserted before that are not in the stream."},
	{PublicationMissing, "The publication does not exist any more, or is missing at this position of the log; rows may not be in the stream.", "`walrelay repair` finds and restores them."},
	{SlotName, "The slot's name is not allowed.", "1 to 63 characters out of a-z, 0-9 and _."},
	{SlotMissing, "The slot does not exist, though events were relayed from it; some may be missing.", "`walrelay repair` finds and restores them from the table."},
	{SlotLost, "The server has invalidated the slot, or dropped log that it needs.", "`walrelay repair`; then set `max_slot_wal_keep_size` and the alerts so that it does not come again."},
	{SlotForeign, "A slot of this name is of another database, plugin or kind.", "Another name in `postgres.slot`."},
	{SlotHeld, "Another process holds the slot.", "Stop it first; `walrelay slot inspect` names it."},
	{SlotUnadopted, "The slot exists, and walrelay has no row for it, or none of this server.", "`walrelay slot adopt` goes on from the slot's position; or begin anew, as the message says."},
	{SlotFailover, "Failover slots need Postgres 17.", "Leave out `--failover`."},
	{SetupInterrupted, "The first start was interrupted before anything was relayed.", "`walrelay init`."},
	{SetupUnclear, "A part of the set-up is there and another is not, so that this may not be the first start.", "As the message says: `walrelay init` if nothing was relayed yet."},
	{RepairUnfinished, "A repair was begun and has not ended.", "`walrelay repair` begins it anew and ends it."},
	{RepairNothing, "There is nothing to repair: nothing was relayed from here yet.", "`walrelay init`."},
	{Adoption, "Something must be done before a slot can be taken over from another program.", "As the message says, then the same command again."},
	{Lost, "Events are in no topic and will not come from the slot.", "`walrelay repair --dry-run` lists them, `walrelay repair` publishes them."},
	{Unproven, "Whether events are missing cannot be proven, or not be looked up.", "`walrelay repair` publishes what the tables still have."},
	{History, "The checkpoint row is of another server, or of a history that this server does not have.", "Check that this is the right server; then `walrelay slot adopt` or `walrelay repair`, as the message says."},
	{CheckpointRow, "The checkpoint row is missing, or in a state that forbids to go on.", "`walrelay slot adopt`, `walrelay init` or `walrelay repair`, as the message says."},
	{CheckpointTaken, "Another relay has taken the slot over since.", "Nothing: that one relays."},
	{KafkaCluster, "The events of this slot are in another Kafka cluster.", "The right `kafka.brokers`; if the move is wanted: `walrelay slot adopt --new-kafka-cluster`."},
	{KafkaRead, "No right to read a topic.", "`kafka-acls.sh --add --operation Read --operation Describe --topic …`."},
	{DeadLetter, "The dead-letter topic cannot take a record.", "Correct the topic's settings or `dead_letter_topic`."},
	{Messages, "The section `messages` of the configuration does not fit.", "Correct it."},
	{Log, "A message of the log or of the replication protocol cannot be understood. Nothing is skipped.", "Start again; if it comes again, report it with the message."},
	{RepairHalted, "A topic or record keeps a repair from publishing.", "As the message says, then `walrelay repair` again."},
	{Prune, "Rows are not surely in Kafka, or the table is not one that can be pruned like this.", "As the message says. Nothing was deleted."},
	{NotDone, "A request was written, and no relay runs that could do it.", "Start `walrelay run`."},
	{Doctor, "`walrelay doctor` has found something that must be mended.", "The lines marked FAIL have the statements."},
	{Differences, "Tables and topics differ.", "`walrelay repair` publishes what is missing."},
	{Unexpected, "Anything else: an error of the network, of the server or of the brokers that may pass.", "Start again."},
}

// coded is an error that knows its kind.
type coded interface{ FaultCode() Code }

// Of is the code of the first error in a chain that has one.
func Of(err error) Code {
	var known coded
	if errors.As(err, &known) {
		return known.FaultCode()
	}
	return Unexpected
}
