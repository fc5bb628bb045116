package router

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answer is what becomes of a property of a Debezium connector.
type Answer string

// The answers.
const (
	Translated   Answer = "translated"    // it is in the Config
	NotNeeded    Answer = "not needed"    // walrelay does this anyway, or it has no counterpart and needs none
	NotSupported Answer = "not supported" // the note says what happens instead
	Elsewhere    Answer = "elsewhere"     // it belongs to another section of the configuration
	Invalid      Answer = "invalid"       // Debezium refuses the value as well
	Unknown      Answer = "unknown"       // not a property that is known here
)

// Finding is the answer to one property.
type Finding struct {
	Property string
	Answer   Answer
	Note     string
}

// FromDebezium translates the options of a Debezium Postgres connector with the EventRouter, as Connect has them, to a
// Config. There is a finding for every option, and for what Connect would take from the worker's configuration; they are
// in the order of the properties' names. The Config may still be refused by Validate, as by Debezium itself.
func FromDebezium(options map[string]string) (Config, []Finding) {
	d := debezium{options: options, findings: map[string]Finding{}}
	d.config.Preset = PresetDebezium
	d.transforms()
	d.converters()
	d.types()
	d.envelope()
	for property := range options {
		if _, done := d.findings[property]; !done {
			d.other(property)
		}
	}
	return d.config, slices.SortedFunc(maps.Values(d.findings), func(a, b Finding) int {
		return cmp.Compare(a.Property, b.Property)
	})
}

type debezium struct {
	options   map[string]string
	config    Config
	findings  map[string]Finding
	enveloped bool
}

func (d *debezium) find(property string, answer Answer, format string, args ...any) {
	d.findings[property] = Finding{Property: property, Answer: answer, Note: fmt.Sprintf(format, args...)}
}

// text takes an option as it is.
func (d *debezium) text(property string, setting *string, name string) {
	if value, ok := d.options[property]; ok {
		*setting = value
		d.find(property, Translated, "%s", name)
	}
}

// truth takes a boolean option; anything but true is false, as in Debezium.
func (d *debezium) truth(property string, setting *bool, name string) {
	if value, ok := d.options[property]; ok {
		*setting = isTrue(value)
		d.find(property, Translated, "%s", name)
	}
}

func isTrue(value string) bool { return strings.EqualFold(strings.TrimSpace(value), "true") }

// word takes an option that has one of a few values, in any case.
func (d *debezium) word(property string, setting *string, name string, words ...string) {
	value, ok := d.options[property]
	if !ok {
		return
	}
	value = strings.ToLower(strings.TrimSpace(value))
	if !slices.Contains(words, value) {
		d.find(property, Invalid, "use one of %s", strings.Join(words, ", "))
		return
	}
	*setting = value
	d.find(property, Translated, "%s", name)
}

const (
	eventRouterClass   = "io.debezium.transforms.outbox.EventRouter"
	decodeMessageClass = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent"
)

// transforms looks for the EventRouter in the chain of transforms.
func (d *debezium) transforms() {
	chain := map[string]bool{}
	found := false
	for name := range strings.SplitSeq(d.options["transforms"], ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		chain[name] = true
		prefix := "transforms." + name + "."
		class := d.options[prefix+"type"]
		switch class {
		case eventRouterClass:
			found = true
			d.eventRouter(prefix)
		case decodeMessageClass:
			d.all(prefix, Elsewhere, "a message source decodes the content by itself")
		default:
			d.all(prefix, NotSupported, "transform %s (%s) is not run: records go out as the EventRouter leaves them", name, class)
		}
	}
	if found {
		d.find("transforms", Translated, "only the EventRouter has a counterpart")
	} else {
		d.find("transforms", NotSupported, "there is no %s among them; the defaults of one are taken", eventRouterClass)
	}
	for property := range d.options {
		name, _, isSetting := strings.Cut(strings.TrimPrefix(property, "transforms."), ".")
		if isSetting && strings.HasPrefix(property, "transforms.") && !chain[name] {
			d.find(property, NotNeeded, "this transform is not among transforms")
		}
	}
	d.all("predicates", NotNeeded, "nothing but outbox rows reaches the router")
}

// all answers every option that begins with prefix and has no answer yet.
func (d *debezium) all(prefix string, answer Answer, format string, args ...any) {
	for property := range d.options {
		if _, done := d.findings[property]; !done && strings.HasPrefix(property, prefix) {
			d.find(property, answer, format, args...)
		}
	}
}

func (d *debezium) eventRouter(prefix string) {
	c := &d.config
	d.find(prefix+"type", Translated, "preset: debezium")
	d.text(prefix+"table.field.event.id", &c.Columns.ID, "columns.id")
	d.text(prefix+"table.field.event.key", &c.Columns.Key, "columns.key; the bytes are those of key.format, so that the partition stays the same")
	d.text(prefix+"table.field.event.type", &c.Columns.Type, "columns.type; it goes out only where placements say so")
	d.text(prefix+"table.field.event.payload", &c.Columns.Payload, "columns.payload")
	d.text(prefix+"table.field.event.timestamp", &c.Columns.Timestamp, "columns.timestamp; also a timestamptz, a date or a bigint of milliseconds; NULL or no column means the commit time, where Debezium takes its own clock")
	d.text(prefix+"table.field.event.schema.version", &c.Columns.SchemaVersion, "columns.schema_version; it has an effect only in an envelope with schemas")
	d.text(prefix+"route.by.field", &c.Route.Field, "route.field")
	d.text(prefix+"route.topic.regex", &c.Route.Regex, "route.regex; what RE2 cannot do is refused at start")
	d.text(prefix+"route.topic.replacement", &c.Route.Replacement, "route.replacement: with ${name}, $1 and \\ as in Java")
	d.truth(prefix+"route.tombstone.on.empty.payload", &c.Value.TombstoneOnEmpty, "value.tombstone_on_empty; blank is what Java's trim removes")
	d.truth(prefix+"table.expand.json.payload", &c.Value.Expand, "value.expand: the column's text without insignificant whitespace")
	d.word(prefix+"table.field.additional.missing", &c.MissingColumn, "missing_column", missingError, missingIgnore)
	d.before36(prefix + "table.fields.additional.error.on.missing")
	d.text(prefix+"tracing.span.context.field", &c.Columns.TraceContext, "columns.trace_context; its W3C headers are passed through, no span is made")
	d.placements(prefix + "table.fields.additional.placement")

	var ignored string
	d.word(prefix+"table.op.invalid.behavior", &ignored, "", "warn", "error", "fatal")
	if ignored != "" {
		d.find(prefix+"table.op.invalid.behavior", NotNeeded, "the publication carries inserts only")
	}
	d.all(prefix+"table.json.payload.", NotNeeded, "expanded JSON keeps nulls and empty arrays")
	if mode := d.options[prefix+"field.name.adjustment.mode"]; mode == "" || mode == "none" {
		d.all(prefix+"field.name.adjustment.mode", NotNeeded, "names of JSON members stay as they are")
	}
	d.all(prefix+"field.name.adjustment.mode", NotSupported, "names of JSON members stay as they are")
	d.all(prefix+"tracing.", NotNeeded, "no spans are made")
	d.all(prefix+"predicate", NotNeeded, "nothing but outbox rows reaches the router")
	d.all(prefix+"negate", NotNeeded, "nothing but outbox rows reaches the router")
}

// before36 takes the boolean that table.field.additional.missing has replaced in 3.6.
func (d *debezium) before36(property string) {
	value, ok := d.options[property]
	if !ok {
		return
	}
	if d.config.MissingColumn == "" && !isTrue(value) {
		d.config.MissingColumn = missingIgnore
	}
	d.find(property, Translated, "missing_column: ignore where it is false")
}

func (d *debezium) placements(property string) {
	value, ok := d.options[property]
	if !ok {
		return
	}
	placements, problems := ParsePlacements([]string{value})
	if len(problems) > 0 {
		d.config.Placements = []string{value}
		d.find(property, Invalid, "%v", problems[0])
		return
	}
	for _, p := range placements {
		d.config.Placements = append(d.config.Placements, p.String())
		d.enveloped = d.enveloped || p.Place == PlaceEnvelope
	}
	d.find(property, Translated, "placements")
}

// types translates how the connector writes columns that are not text.
func (d *debezium) types() {
	t := &d.config.Types
	d.word("decimal.handling.mode", &t.Decimal, "types.decimal", precise, decimalString, double)
	d.word("time.precision.mode", &t.Time, "types.time",
		adaptive, adaptiveMicros, microseconds, nanoseconds, isostring, connect)
	d.word("binary.handling.mode", &t.Binary, "types.binary", binaryBytes, base64Mode, base64URLMode, hexMode)
	d.word("interval.handling.mode", &t.Interval, "types.interval", numeric, intervalString)
	d.text("topic.prefix", &d.config.Value.SchemaPrefix, "value.schema_prefix; it is part of nothing else")
}

// envelope repairs what Debezium accepts and writes as the description of a Java object.
func (d *debezium) envelope() {
	c := &d.config
	if d.enveloped && !c.Value.json() {
		c.Value.Format = formatJSON
		d.find("value.converter", NotSupported, "an envelope is written as JSON; this converter writes the description of a Java object, or fails")
	}
	if c.Columns.SchemaVersion != "" && !(d.enveloped && c.Value.Schemas) {
		c.Columns.SchemaVersion = "" // no effect in Debezium
	}
}
