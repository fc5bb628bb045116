package router

// Config says how the rows of one outbox table become records. The zero Config is valid: Debezium's or snake-case
// column names are detected, the topic is outbox.event.<aggregate type>, the payload goes out as it is.
// The comments name Debezium's option of the same meaning where there is one.
type Config struct {
	// Preset fills in what is left empty below: debezium, snake, snake-polling or omni-box. Empty: detected from the
	// table's columns.
	Preset  string      `yaml:"preset"`
	Columns Columns     `yaml:"columns"`
	Route   Routing     `yaml:"route"`
	Key     KeyFormat   `yaml:"key"`
	Value   ValueFormat `yaml:"value"`
	Headers Headers     `yaml:"headers"`
	// Placements carry more columns: column:header[:name], column:envelope[:name], column:partition. Column and name
	// cannot contain a comma or a colon. (table.fields.additional.placement)
	Placements []string `yaml:"placements"`
	// MissingColumn is what happens when a column of Placements is not in the table: error (default) or ignore.
	// (table.field.additional.missing)
	MissingColumn string `yaml:"missing_column"`
	Filter        Filter `yaml:"filter"`
	Types         Types  `yaml:"types"`
}

// Columns names the columns that have a meaning of their own. Empty ones are filled in by the preset.
type Columns struct {
	// ID becomes the header id. (table.field.event.id)
	ID string `yaml:"id"`
	// Key becomes the record key; NULL is a null key. (table.field.event.key)
	Key string `yaml:"key"`
	// Type is the event type. Only Filter reads it; Placements make a header of it. (table.field.event.type)
	Type string `yaml:"type"`
	// Payload becomes the value. (table.field.event.payload)
	Payload string `yaml:"payload"`
	// Timestamp replaces the commit time as record timestamp: a timestamp, timestamptz or date, or a bigint of
	// milliseconds. NULL means commit time. (table.field.event.timestamp)
	Timestamp string `yaml:"timestamp"`
	// Headers is a json or jsonb column with an object whose members become headers.
	Headers string `yaml:"headers"`
	// TraceParent is a text column that becomes the W3C header traceparent.
	TraceParent string `yaml:"traceparent"`
	// TraceContext is a text column with a Java Properties text, whose traceparent, tracestate and baggage become W3C
	// headers. (tracing.span.context.field)
	TraceContext string `yaml:"trace_context"`
	// SchemaVersion is an integer column with the version of the envelope's Connect schema. It needs value.schemas and
	// an envelope. (table.field.event.schema.version)
	SchemaVersion string `yaml:"schema_version"`
}

// Routing makes the topic of a column's value.
type Routing struct {
	// Field is the column that is routed by. (route.by.field)
	Field string `yaml:"field"`
	// Regex is a Java regular expression that must match the whole value. (route.topic.regex)
	Regex string `yaml:"regex"`
	// Replacement makes the topic, with ${name}, $1 and \ as in Java. (route.topic.replacement)
	Replacement string `yaml:"replacement"`
	// NoMatch is the answer to a value that Regex does not match: raw (default: the value itself is the topic), error
	// (the event is poison) or default (DefaultTopic).
	NoMatch      string `yaml:"no_match"`
	DefaultTopic string `yaml:"default_topic"`
}

// KeyFormat is how the key column is written.
type KeyFormat struct {
	// Format is text (default; bytea as raw bytes) or json, which is what Connect's JsonConverter writes. The
	// partition depends on these bytes.
	Format string `yaml:"format"`
	// Schemas wraps json in Connect's {"schema":…,"payload":…}.
	Schemas bool `yaml:"schemas"`
}

// ValueFormat is how the payload is written.
type ValueFormat struct {
	// Format is raw (default: json and text as UTF-8, bytea as raw bytes), json, which is what Connect's JsonConverter
	// writes: text and JSON as a JSON string, bytea as base64, null as the four bytes null; bytes, which is raw for a
	// bytea and refuses any other column; or bytes-or-json, which is raw for a bytea and json for any other column.
	Format string `yaml:"format"`
	// Schemas wraps json in Connect's {"schema":…,"payload":…}.
	Schemas bool `yaml:"schemas"`
	// Expand writes a JSON object or array as itself, without insignificant whitespace, in place of a JSON string of
	// it. (table.expand.json.payload)
	Expand bool `yaml:"expand"`
	// TombstoneOnEmpty makes a null record value of a payload that is NULL or blank, whatever the format.
	// (route.tombstone.on.empty.payload)
	TombstoneOnEmpty bool `yaml:"tombstone_on_empty"`
	// SchemaPrefix begins the name of the envelope's schema: <prefix>.<schema>.<table>.<routed value>.Value.
	// (topic.prefix)
	SchemaPrefix string `yaml:"schema_prefix"`
}

// Headers is how headers are written.
type Headers struct {
	// ID is the name of the header with the event id, by default id.
	ID string `yaml:"id"`
	// Position is on (default) or off: the header walrelay.lsn with the identity of the event. Without it a restart
	// cannot prove what is in the topic already.
	Position string `yaml:"position"`
	// Format is text (default; what Connect's SimpleHeaderConverter writes), string (its StringConverter) or json (its
	// JsonConverter). It applies to id and Placements.
	Format string `yaml:"format"`
	// Schemas wraps json in Connect's {"schema":…,"payload":…}.
	Schemas bool `yaml:"schemas"`
	// Nulls is keep (default: a NULL column of Placements makes a header with a null value) or omit (it makes none).
	Nulls string `yaml:"nulls"`
}

// Filter chooses events. An event matches when its type is in Types and its routed value is in Values; an empty list
// matches all.
type Filter struct {
	Types  []string `yaml:"types"`
	Values []string `yaml:"values"`
	// Mode is keep (default: what does not match is dropped and counted) or drop (what matches is).
	Mode string `yaml:"mode"`
}

// Types is how columns that are not text are written, in a key, header or envelope. The defaults are Debezium's.
type Types struct {
	// Decimal is precise (default), string or double. (decimal.handling.mode)
	Decimal string `yaml:"decimal"`
	// Time is adaptive (default), adaptive_time_microseconds, microseconds, nanoseconds, isostring or connect.
	// (time.precision.mode)
	Time string `yaml:"time"`
	// Binary is bytes (default), base64, base64-url-safe or hex; it applies to the payload as well.
	// (binary.handling.mode)
	Binary string `yaml:"binary"`
	// Interval is numeric (default) or string. (interval.handling.mode)
	Interval string `yaml:"interval"`
}

// The words of the Config. The first of a group is the default.
const (
	formatText, formatJSON, formatRaw, formatString = "text", "json", "raw", "string"
	formatBytes, formatBytesOrJSON                  = "bytes", "bytes-or-json"
	noMatchRaw, noMatchError, noMatchDefault        = "raw", "error", "default"
	missingError, missingIgnore                     = "error", "ignore"
	on, off                                         = "on", "off"
	keep, drop, omit                                = "keep", "drop", "omit"

	precise, decimalString, double                  = "precise", "string", "double"
	adaptive, adaptiveMicros, microseconds          = "adaptive", "adaptive_time_microseconds", "microseconds"
	nanoseconds, isostring, connect                 = "nanoseconds", "isostring", "connect"
	binaryBytes, base64Mode, base64URLMode, hexMode = "bytes", "base64", "base64-url-safe", "hex"
	numeric, intervalString                         = "numeric", "string"
)
