package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Validate checks what can be checked without the table, and returns all problems together.
func (c Config) Validate() error {
	if _, known := presets[c.Preset]; !known && c.Preset != "" {
		return fmt.Errorf("preset %q: use one of %s", c.Preset, strings.Join(Presets(), ", "))
	}
	c = c.resolved(nil)
	problems := c.validateWords()
	_, topicProblems := newTopicRouter(c.Route, nil)
	problems = append(problems, topicProblems...)
	placements, placementProblems := ParsePlacements(c.Placements)
	problems = append(problems, placementProblems...)
	for _, p := range placements {
		if p.Place == PlaceHeader && p.Alias == HeaderPosition {
			problems = append(problems, fmt.Errorf("placement %q: the header %s is walrelay's own", p, HeaderPosition))
		}
	}
	problems = append(problems, c.validateEnvelope(placements)...)
	if c.Route.NoMatch == noMatchDefault {
		if reason := illegalTopic(c.Route.DefaultTopic); reason != "" {
			problems = append(problems, fmt.Errorf("route.default_topic %q: %s", c.Route.DefaultTopic, reason))
		}
	} else if c.Route.DefaultTopic != "" {
		problems = append(problems, errors.New("route.default_topic: needs route.no_match: default"))
	}
	if c.Filter.Mode == drop && len(c.Filter.Types) == 0 && len(c.Filter.Values) == 0 {
		problems = append(problems, errors.New("filter.mode drop: without types and values it would drop every event"))
	}
	return errors.Join(problems...)
}

func (c Config) validateWords() (problems []error) {
	for _, setting := range []struct {
		name, value string
		words       []string
	}{
		{"route.no_match", c.Route.NoMatch, []string{noMatchRaw, noMatchError, noMatchDefault}},
		{"key.format", c.Key.Format, []string{formatText, formatJSON}},
		{"value.format", c.Value.Format, []string{formatRaw, formatJSON, formatBytes, formatBytesOrJSON}},
		{"headers.format", c.Headers.Format, []string{formatText, formatString, formatJSON}},
		{"headers.position", c.Headers.Position, []string{on, off}},
		{"headers.nulls", c.Headers.Nulls, []string{keep, omit}},
		{"missing_column", c.MissingColumn, []string{missingError, missingIgnore}},
		{"filter.mode", c.Filter.Mode, []string{keep, drop}},
		{"types.decimal", c.Types.Decimal, []string{precise, decimalString, double}},
		{"types.time", c.Types.Time, []string{adaptive, adaptiveMicros, microseconds, nanoseconds, isostring, connect}},
		{"types.binary", c.Types.Binary, []string{binaryBytes, base64Mode, base64URLMode, hexMode}},
		{"types.interval", c.Types.Interval, []string{numeric, intervalString}},
	} {
		if !slices.Contains(setting.words, setting.value) {
			problems = append(problems, fmt.Errorf("%s %q: use one of %s", setting.name, setting.value, strings.Join(setting.words, ", ")))
		}
	}
	for _, schemas := range []struct {
		name    string
		set     bool
		wrapped bool
	}{
		{"key", c.Key.Schemas, c.Key.Format == formatJSON},
		{"value", c.Value.Schemas, c.Value.json()},
		{"headers", c.Headers.Schemas, c.Headers.Format == formatJSON},
	} {
		if schemas.set && !schemas.wrapped {
			problems = append(problems, fmt.Errorf("%s.schemas: needs %s.format: json", schemas.name, schemas.name))
		}
	}
	return problems
}

// validateEnvelope checks the members of the envelope.
func (c Config) validateEnvelope(placements []Placement) (problems []error) {
	aliases := []string{"payload"}
	for _, p := range placements {
		if p.Place != PlaceEnvelope {
			continue
		}
		if slices.Contains(aliases, p.Alias) {
			problems = append(problems, fmt.Errorf("placement %q: the envelope has a member %q already", p, p.Alias))
		}
		aliases = append(aliases, p.Alias)
	}
	enveloped := len(aliases) > 1
	if enveloped && !c.Value.json() {
		problems = append(problems, errors.New("placements: an envelope is JSON, so it needs value.format: json"))
	}
	if c.Columns.SchemaVersion != "" && !(enveloped && c.Value.Schemas) {
		problems = append(problems, errors.New("columns.schema_version: needs an envelope and value.schemas: true"))
	}
	return problems
}

// json tells whether anything is written as JSON.
func (v ValueFormat) json() bool { return v.Format == formatJSON || v.Format == formatBytesOrJSON }
