package router

import "strings"

// knownProperty answers properties that do not shape records. A pattern that ends in * stands for every property that
// begins with the rest; the first match counts.
type knownProperty struct {
	pattern string
	answer  Answer
	note    string
}

// other answers a property that is not about routing.
func (d *debezium) other(property string) {
	for _, known := range debeziumProperties {
		prefix, any := strings.CutSuffix(known.pattern, "*")
		if known.pattern == property || any && strings.HasPrefix(property, prefix) {
			d.find(property, known.answer, "%s", known.note)
			return
		}
	}
	d.find(property, Unknown, "walrelay does not know this property; nothing happens")
}

const (
	connection   = "the connection to Postgres: postgres.url"
	slot         = "the replication slot: postgres.slot"
	tables       = "the list of outbox tables: tables"
	producer     = "the connection to Kafka: kafka"
	topics       = "the creation of topics: kafka.topics"
	messages     = "the message source: messages"
	noSnapshot   = "rows are read from the log only; init --existing says what becomes of the rows that were there before"
	noHeartbeat  = "the slot moves with every keepalive; no heartbeat is written or published"
	noQueue      = "memory is bounded by kafka.in_flight; there is no queue to size"
	noSignal     = "there are no signals; repair and replay are commands"
	noNotice     = "there are no notifications; see the metrics and /status"
	noSchema     = "no schema changes are published"
	allColumns   = "every column of the table can be placed, and only placed columns go out"
	keptRunning  = "trouble is retried without end, a bad record halts the relay or goes to the dead letters: on_poison"
	neverFlushes = "the slot is confirmed only up to what Kafka has acknowledged"
	noTopicName  = "the topic is made by route alone"
	noLineage    = "there is no OpenLineage"
	insertOnly   = "the publication carries inserts only"
	ownTransact  = "transactions are not published; the order of commits is kept"
)

// debeziumProperties are the properties of the Postgres connector 3.6 and of Connect, in the order of its documentation.
var debeziumProperties = []knownProperty{
	{"name", NotNeeded, "the name of the connector"},
	{"connector.class", NotNeeded, "walrelay is the connector"},
	{"tasks.max*", NotNeeded, "one process reads one slot"},
	{"task.id", NotNeeded, "one process reads one slot"},
	{"plugin.name", NotNeeded, "pgoutput is the only plugin"},
	{"converters", NotSupported, "custom converters are Java classes; columns are written as types says"},

	{"database.hostname", Elsewhere, connection},
	{"database.port", Elsewhere, connection},
	{"database.user", Elsewhere, connection},
	{"database.password", Elsewhere, connection},
	{"database.dbname", Elsewhere, connection},
	{"database.ssl*", Elsewhere, connection},
	{"database.tcpKeepAlive", NotNeeded, "always on"},
	{"database.initial.statements", NotSupported, "the sessions are set up by walrelay"},
	{"database.*", NotSupported, "a setting of the Java driver"},
	{"driver.*", NotSupported, "a setting of the Java driver"},
	{"connection.*", NotSupported, "a setting of the Java driver"},

	{"slot.name", Elsewhere, slot},
	{"slot.failover", Elsewhere, slot},
	{"slot.drop.on.stop", NotSupported, "walrelay never drops a slot"},
	{"slot.*", NotNeeded, "the slot is opened with what pgoutput needs, and retried without end"},
	{"create.slot.command.timeout", NotNeeded, "init waits as long as it takes"},
	{"publication.name", Elsewhere, "the publication: postgres.publication"},
	{"publication.autocreate.mode", NotNeeded, "init creates the publication, run verifies it"},
	{"publish.via.partition.root", NotNeeded, "always on"},
	{"replica.identity.autoset.values", NotNeeded, insertOnly},
	{"table.include.list", Elsewhere, tables},
	{"table.exclude.list", Elsewhere, tables},
	{"schema.include.list", Elsewhere, tables},
	{"schema.exclude.list", Elsewhere, tables},
	{"database.include.list", Elsewhere, tables},
	{"message.prefix.include.list", Elsewhere, messages},
	{"message.prefix.exclude.list", Elsewhere, messages},

	{"column.include.list", NotNeeded, allColumns},
	{"column.exclude.list", NotNeeded, allColumns},
	{"column.propagate.source.type", NotSupported, "Connect schemas carry no source types"},
	{"datatype.propagate.source.type", NotSupported, "Connect schemas carry no source types"},
	{"column.*", NotSupported, "columns are neither masked nor cut"},
	{"message.key.columns", NotNeeded, "the EventRouter's key takes its place"},
	{"skipped.operations", NotNeeded, insertOnly},
	{"skip.messages.without.change", NotNeeded, insertOnly},
	{"tombstones.on.delete", NotNeeded, insertOnly},
	{"table.ignore.builtin", NotNeeded, tables},

	{"hstore.handling.mode", NotSupported, "hstore is written as Postgres prints it"},
	{"include.unknown.datatypes", NotNeeded, "every type can be placed; one without a form of its own is written as Postgres prints it"},
	{"money.fraction.digits", NotSupported, "money has two digits behind the point"},
	{"unavailable.value.placeholder", NotNeeded, "an insert carries every value"},
	{"schema.name.adjustment.mode", NotSupported, "names of schemas stay as they are"},
	{"field.name.adjustment.mode", NotSupported, "names of columns stay as they are"},
	{"include.schema.comments", NotNeeded, noSchema},
	{"include.schema.changes", NotNeeded, noSchema},
	{"schema.refresh.mode", NotNeeded, "the stream tells every change of the table"},
	{"schema.history.internal*", NotNeeded, noSchema},
	{"sourceinfo.struct.maker", NotNeeded, "the EventRouter drops it"},
	{"extended.headers.enabled", NotSupported, "the __debezium.context.* headers are not written; walrelay.lsn is"},

	{"topic.creation.*", Elsewhere, topics},
	{"topic.*", NotNeeded, noTopicName},
	{"producer.override.*", Elsewhere, producer},
	{"heartbeat.*", NotNeeded, noHeartbeat},
	{"snapshot.*", NotNeeded, noSnapshot},
	{"incremental.snapshot.*", NotSupported, noSignal},
	{"legacy.snapshot.max.threads", NotNeeded, noSnapshot},
	{"streaming.delay.ms", NotNeeded, noSnapshot},
	{"read.only", NotNeeded, noSignal},
	{"signal.*", NotSupported, noSignal},
	{"notification.*", NotSupported, noNotice},
	{"provide.transaction.metadata", NotSupported, ownTransact},
	{"transaction.*", NotNeeded, ownTransact},

	{"poll.interval.ms", NotNeeded, "rows are pushed by Postgres"},
	{"max.batch.size", NotNeeded, noQueue},
	{"max.queue.size*", NotNeeded, noQueue},
	{"queue.provider.type", NotNeeded, noQueue},
	{"query.fetch.size", NotNeeded, noQueue},
	{"multi.partition.mode", NotNeeded, noQueue},
	{"status.update.interval.ms", NotNeeded, "a third of wal_sender_timeout, at most 10 s"},
	{"xmin.fetch.interval.ms", NotNeeded, "the state of the slot is watched anyway"},
	{"flush.lsn.source", NotNeeded, neverFlushes},
	{"lsn.flush.*", NotNeeded, neverFlushes},
	{"offset.*", NotNeeded, "the position is the slot's, with a row in walrelay.checkpoint"},
	{"exactly.once.support", NotNeeded, "every event stands in the log once without it"},
	{"retriable.restart.connector.wait.ms", NotNeeded, keptRunning},
	{"errors.tolerance", NotSupported, keptRunning + "; nothing is skipped in silence"},
	{"errors.*", NotNeeded, keptRunning},
	{"event.*", NotSupported, keptRunning},
	{"executor.shutdown.timeout.ms", NotNeeded, "shutdown drains for up to 10 s"},
	{"custom.metric.tags", NotSupported, "label the metrics in the scraper"},
	{"statistics.metrics.enabled", NotNeeded, "metrics are always on"},
	{"openlineage.*", NotSupported, noLineage},
	{"post.processors*", NotSupported, "records go out as the EventRouter leaves them"},
	{"guardrail.*", NotNeeded, tables},
	{"config.action.reload", NotNeeded, "secrets are read at start"},
	{"config.providers*", NotSupported, "use environment variables for secrets"},
}
