package relay

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// deviations are the differences from Debezium that are on purpose. A rule looks at the row, the options and both
// outcomes, never at a case's name.
var deviations = []struct {
	what, why string
	explain   func(c *conformity) bool
}{
	{
		what:    "Debezium's task had died at an earlier row",
		why:     "each row stands for itself: poison halts the relay or goes to the dead letters, as on_poison says, and a person skips it",
		explain: afterDeath,
	},
	{
		what: "expanded JSON is the column's text without insignificant whitespace, not a document made anew",
		why: "Debezium's model loses null members, empty arrays and digits of numbers, mixes up arrays of different objects, and kills " +
			"the task on an integer beyond 64 bits, on a root array or on a member with two types",
		explain: expandedText,
	},
	{
		what:    "no descriptions of Java objects: bytea goes out as raw bytes, a numeric as its text, an envelope as JSON",
		why:     "StringConverter writes java.nio.HeapByteBuffer[pos=0 lim=7 cap=7] or Struct{...} there, which nobody can read",
		explain: noJavaDescription,
	},
	{
		what:    "timestamptz, date and bigint are accepted as timestamp, and a timestamp in every time.precision.mode",
		why:     "Debezium's task dies at the first row",
		explain: acceptedTimestamp,
	},
	{
		what:    "a timestamp that Kafka refuses is replaced by the commit time, and counted",
		why:     "the producer's error shows in Debezium only at the next record, and kills the task",
		explain: replacedTimestamp,
	},
	{
		what: "what kills Debezium's task is poison (this row only) or a refusal at start",
		why: "an illegal topic name, a partition that does not exist, a column that is missing or of the wrong type, an option with a bad value: " +
			"said before the first row where the table shows it, else at the row, and nothing behind it is lost",
		explain: poisonOrRefusal,
	},
	{
		what:    "a NULL routing value is poison",
		why:     "it kills Debezium's task, and with errors.tolerance=all the row is dropped in silence",
		explain: nullRoutingValue,
	},
	{
		what:    "what RE2 cannot do in a regex is refused at start, with the reason",
		why:     "look-around, back-references and possessive quantifiers need a matcher that can take exponential time for one row",
		explain: refusedRegex,
	},
}

// explain returns the reason of the first rule that explains the difference.
func (c *conformity) explain() string {
	for _, d := range deviations {
		if d.explain(c) {
			return d.what
		}
	}
	return ""
}

// published tells whether the row was published, once, and all but the value and the time is as Debezium has it, where it
// has a record.
func (c *conformity) published() bool {
	actual, expected := c.actual(), c.expected()
	if len(actual) != 1 || len(expected) > 1 || c.outcome.poison != nil || c.outcome.refused != nil {
		return false
	}
	if len(expected) == 0 {
		return c.failed()
	}
	expected[0].Value, expected[0].Time = actual[0].Value, actual[0].Time
	return expected[0] == actual[0]
}

// failed tells whether Debezium's task died in this group and published nothing for this row.
func (c *conformity) failed() bool {
	return c.TaskState == "FAILED" && len(c.expected()) == 0
}

// value is the value of the only record.
func (c *conformity) value() string { return string(c.outcome.records[0].Value) }

// cell is a column's text, or false for NULL or no such column.
func (c *conformity) cell(column string) (string, bool) {
	if len(c.outcome.records) == 0 {
		return "", false
	}
	text, ok := c.outcome.records[0].row[column]
	return text.text, ok && !text.null
}

func (c *conformity) payload() (string, bool) {
	name := c.option("table.field.event.payload")
	name = cmp.Or(name, "payload")
	return c.cell(name)
}

func expandedText(c *conformity) bool {
	if !strings.EqualFold(c.option("table.expand.json.payload"), "true") || !c.published() {
		return false
	}
	payload, ok := c.payload()
	if !ok || payload[0] != '{' && payload[0] != '[' || !json.Valid([]byte(payload)) {
		return false
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(payload)) != nil {
		return false
	}
	value, enveloped := strings.CutPrefix(c.value(), `{"payload":`)
	if !enveloped || !strings.Contains(c.option("table.fields.additional.placement"), "envelope") {
		_, inSchema, _ := strings.Cut(c.value(), `},"payload":`)
		return c.value() == compact.String() || inSchema == compact.String()+"}"
	}
	rest, expanded := strings.CutPrefix(value, compact.String())
	return expanded && (len(c.Records) == 0 || strings.HasSuffix(string(*c.Records[0].Value), rest))
}

func noJavaDescription(c *conformity) bool {
	if len(c.Records) != 1 || len(c.outcome.records) != 1 {
		return false
	}
	want, got := c.Records[0], c.outcome.records[0]
	key, value := got.Key, got.Value
	if isDescription(want.Key) && string(key) == c.plain(c.keyColumn()) {
		key = *want.Key
	}
	text, _ := c.payload()
	enveloped := strings.Contains(c.option("table.fields.additional.placement"), "envelope")
	if isDescription(want.Value) && (string(value) == plainText(text) || enveloped && isEnvelope(value)) {
		value = *want.Value
	}
	described := isDescription(want.Key) || isDescription(want.Value)
	return described && bytes.Equal(key, bytesOf(want.Key)) && bytes.Equal(value, bytesOf(want.Value)) &&
		c.expected()[0].Headers == c.actual()[0].Headers
}

func isDescription(b *[]byte) bool {
	return b != nil && (bytes.HasPrefix(*b, []byte("java.nio.HeapByteBuffer[")) || bytes.HasPrefix(*b, []byte("Struct{")))
}

func isEnvelope(value []byte) bool {
	return json.Valid(value) && bytes.HasPrefix(value, []byte(`{"payload":`))
}

func (c *conformity) keyColumn() string {
	name := c.option("table.field.event.key")
	name = cmp.Or(name, "aggregateid")
	return name
}

func (c *conformity) plain(column string) string {
	text, _ := c.cell(column)
	return plainText(text)
}

// plainText decodes what looks like a bytea.
func plainText(text string) string {
	if digits, ok := strings.CutPrefix(text, `\x`); ok {
		if decoded, err := hex.DecodeString(digits); err == nil {
			return string(decoded)
		}
	}
	return text
}

func acceptedTimestamp(c *conformity) bool {
	text, ok := c.cell(c.option("table.field.event.timestamp"))
	if !ok || !c.failed() || !c.published() {
		return false
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999-07", "2006-01-02 15:04:05.999999", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return c.outcome.records[0].Time == at.UnixMilli()
		}
	}
	millis, ok := jsonNumber(text)
	return ok && c.outcome.records[0].Time == millis
}

func jsonNumber(text string) (n int64, ok bool) { return n, json.Unmarshal([]byte(text), &n) == nil }

func replacedTimestamp(c *conformity) bool {
	return c.failed() && c.published() && c.outcome.records[0].TimeReplaced && c.outcome.records[0].Time == c.outcome.records[0].Identity.Time/1000
}

func poisonOrRefusal(c *conformity) bool {
	return c.failed() && len(c.outcome.records) == 0 && (c.outcome.poison != nil || c.outcome.refused != nil)
}

func nullRoutingValue(c *conformity) bool {
	return c.Options["errors.tolerance"] == "all" && len(c.expected()) == 0 && len(c.outcome.records) == 0 &&
		c.outcome.poison != nil && strings.Contains(c.outcome.poison.Error(), "is NULL")
}

func refusedRegex(c *conformity) bool {
	return c.outcome.refused != nil && strings.Contains(c.outcome.refused.Error(), "RE2, which matches in linear time, has none")
}

// afterDeath wants a cause: an earlier row that has no record either, or one that made an operation which kills.
func afterDeath(c *conformity) bool {
	if !c.failed() || c.outcome.poison != nil || c.outcome.refused != nil {
		return false
	}
	return slices.ContainsFunc(c.group[:c.index], func(earlier vector) bool {
		e := conformity{vector: &earlier}
		sql := strings.ToLower(earlier.SQL)
		return e.failed() ||
			strings.Contains(sql, "truncate") && c.Options["skipped.operations"] == "none" ||
			strings.Contains(sql, "update") && c.option("table.op.invalid.behavior") == "fatal"
	})
}
