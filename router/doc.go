// Package router makes Kafka records of outbox rows: topic, key, value, headers, partition and time, as Debezium's Outbox
// Event Router makes them. It is the contract with consumers, so that a topic can change hands without one of them noticing.
//
// Bind checks a Config against one shape of a table (decoder.Relation) and plans what is read from which column. The Route
// it returns then makes the record of each row without allocating, except for what is rare. BindEnvelope does the same for an
// outbox without a table, whose events come as JSON through pg_logical_emit_message. FromDebezium translates the options
// of a Debezium connector.
//
// What is NULL or empty:
//
//	routing column NULL      poison: the event has no topic
//	routing column empty     an empty value, routed as any other
//	key NULL                 null key; with key.format json the text null
//	key empty                an empty key, which is not a null key
//	payload NULL             null value; with value.format json the text null; with tombstone_on_empty always a null value
//	payload empty or blank   as it is; with tombstone_on_empty a null value (blank is what Java's trim removes: up to U+0020)
//	id or placed column NULL a header with a null value, or none with headers.nulls omit
//	timestamp NULL           the commit time
//	partition NULL           the key decides
//
// The forms of column types, of JSON and of numbers are those of Debezium 3.6.1 with Connect 4.3.0. They were read in the
// sources (PostgresValueConverter, EventRouterDelegate, JsonSchemaData, JsonConverter, Values) and are compared byte for
// byte with recordings (relay/testdata/vectors.jsonl). Not known from the stream, and so not reproduced: column defaults, which
// Connect puts in place of NULL and into schemas.
//
// The package does not know Kafka: whether a topic exists or a partition does is the producer's business. It is pure: no I/O,
// clock, goroutine or logger. A Route, an EnvelopeRoute and a Message belong to one goroutine; a Config is a value.
package router
