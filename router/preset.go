package router

// The presets.
const (
	// PresetDebezium is the table of Debezium's documentation.
	PresetDebezium = "debezium"
	// PresetSnake is the table of most courses, with the topics of Debezium.
	PresetSnake = "snake"
	// PresetSnakePolling is the same table with the contract of the polling relay that comes with it: the topic is the
	// event type, and the id is in the header event_id.
	PresetSnakePolling = "snake-polling"
	// PresetOmniBox is the table outbox_events of omni-box: topic, key and headers are columns. Its scheduled_at cannot
	// be honoured: a row is read from the log when it commits, so delayed events go out at once.
	PresetOmniBox = "omni-box"
)

var presets = map[string]Config{
	PresetDebezium: {
		Columns: Columns{ID: "id", Key: "aggregateid", Type: "type", Payload: "payload"},
		Route:   Routing{Field: "aggregatetype"},
	},
	PresetSnake: {
		Columns: Columns{ID: "id", Key: "aggregate_id", Type: "event_type", Payload: "payload"},
		Route:   Routing{Field: "aggregate_type"},
	},
	PresetSnakePolling: {
		Columns: Columns{ID: "id", Key: "aggregate_id", Type: "event_type", Payload: "payload"},
		Route:   Routing{Field: "event_type", Replacement: "${routedByValue}"},
		Headers: Headers{ID: "event_id"},
	},
	PresetOmniBox: {
		Columns: Columns{ID: "id", Key: "partition_key", Type: "event_type", Payload: "payload", Headers: "headers"},
		Route:   Routing{Field: "topic", Replacement: "${routedByValue}"},
		Headers: Headers{ID: "event_id", Nulls: omit},
		Placements: []string{
			"event_type:header", "schema_version:header", "trace_id:header", "correlation_id:header", "causation_id:header",
		},
		MissingColumn: missingIgnore,
	},
}

// Presets are the names of the presets, for messages and completion.
func Presets() []string {
	return []string{PresetDebezium, PresetSnake, PresetSnakePolling, PresetOmniBox}
}

// Detect recognises a table by its column names: PresetDebezium or PresetSnake, or false where neither has its id, key,
// routing and payload column. Other columns do not matter.
func Detect(columns []string) (preset string, ok bool) {
	best, found := PresetDebezium, 0
	for _, name := range []string{PresetDebezium, PresetSnake} {
		if n := countPresent(presets[name], columns); n > found {
			best, found = name, n
		}
	}
	return best, found == 4
}

func countPresent(p Config, columns []string) int {
	n := 0
	for _, column := range columns {
		switch column {
		case p.Columns.ID, p.Columns.Key, p.Columns.Payload, p.Route.Field:
			n++
		}
	}
	return n
}

// resolved fills in what is empty: from the preset, which is detected from the table's columns where none is named, and
// then with the defaults.
func (c Config) resolved(columns []string) Config {
	name := c.Preset
	if name == "" {
		name, _ = Detect(columns)
	}
	p := presets[name]
	c.Columns.fill(p.Columns)
	fill(&c.Route.Field, p.Route.Field)
	fill(&c.Route.Replacement, p.Route.Replacement, "outbox.event.${routedByValue}")
	fill(&c.Route.Regex, "(?<routedByValue>.*)")
	fill(&c.Route.NoMatch, noMatchRaw)
	fill(&c.Key.Format, formatText)
	fill(&c.Value.Format, formatRaw)
	fill(&c.Headers.ID, p.Headers.ID, "id")
	fill(&c.Headers.Position, on)
	fill(&c.Headers.Format, formatText)
	fill(&c.Headers.Nulls, p.Headers.Nulls, keep)
	if c.Placements == nil {
		c.Placements = p.Placements
		fill(&c.MissingColumn, p.MissingColumn)
	}
	fill(&c.MissingColumn, missingError)
	fill(&c.Filter.Mode, keep)
	fill(&c.Types.Decimal, precise)
	fill(&c.Types.Time, adaptive)
	fill(&c.Types.Binary, binaryBytes)
	fill(&c.Types.Interval, numeric)
	return c
}

func (c *Columns) fill(from Columns) {
	fill(&c.ID, from.ID)
	fill(&c.Key, from.Key)
	fill(&c.Type, from.Type)
	fill(&c.Payload, from.Payload)
	fill(&c.Headers, from.Headers)
}

// fill sets an empty setting to the first value that is not empty.
func fill(setting *string, values ...string) {
	for _, value := range values {
		if *setting == "" {
			*setting = value
		}
	}
}
