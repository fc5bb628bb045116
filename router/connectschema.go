package router

import (
	"strconv"
	"strings"
)

// connectSchema is a schema as JsonConverter writes it.
type connectSchema struct {
	kind       string // type, such as int32
	inside     string // JSON between type and optional: fields or items
	name       string
	version    int // 0: none
	doc        string
	parameters [][2]string
}

func named(kind, name string) connectSchema {
	return connectSchema{kind: kind, name: name, version: 1}
}

// json is the schema without the closing brace, so that a field's name can follow.
func (s connectSchema) json(optional bool) string {
	var b strings.Builder
	b.WriteString(`{"type":"` + s.kind + `"` + s.inside + `,"optional":` + strconv.FormatBool(optional))
	if s.name != "" {
		b.WriteString(`,"name":"` + s.name + `"`)
	}
	if s.version != 0 {
		b.WriteString(`,"version":` + strconv.Itoa(s.version))
	}
	if s.doc != "" {
		b.WriteString(`,"doc":"` + s.doc + `"`)
	}
	for i, p := range s.parameters {
		if i == 0 {
			b.WriteString(`,"parameters":{`)
		} else {
			b.WriteByte(',')
		}
		b.WriteString(`"` + p[0] + `":"` + p[1] + `"`)
	}
	if len(s.parameters) > 0 {
		b.WriteByte('}')
	}
	return b.String()
}

func arraySchema(elem connectSchema) connectSchema {
	return connectSchema{kind: "array", inside: `,"items":` + elem.json(true) + `}`}
}

func enumSchema(labels []string) connectSchema {
	s := named("string", "io.debezium.data.Enum")
	allowed := string(appendJSONEscaped(nil, strings.Join(labels, ",")))
	s.parameters = [][2]string{{"allowed", allowed}}
	return s
}

func decimalSchema(scale, precision int) connectSchema {
	s := named("bytes", "org.apache.kafka.connect.data.Decimal")
	s.parameters = [][2]string{{"scale", strconv.Itoa(scale)}}
	if precision > 0 {
		s.parameters = append(s.parameters, [2]string{"connect.decimal.precision", strconv.Itoa(precision)})
	}
	return s
}

var variableDecimalSchema = connectSchema{
	kind:   "struct",
	inside: `,"fields":[{"type":"int32","optional":false,"field":"scale"},{"type":"bytes","optional":false,"field":"value"}]`,
	name:   "io.debezium.data.VariableScaleDecimal", version: 1, doc: "Variable scaled decimal",
}

var pointSchema = connectSchema{
	kind: "struct",
	inside: `,"fields":[{"type":"double","optional":false,"field":"x"},{"type":"double","optional":false,"field":"y"},` +
		`{"type":"bytes","optional":true,"field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]`,
	name: "io.debezium.data.geometry.Point", version: 1, doc: "Geometry (POINT)",
}

func dateSchema(u unit) connectSchema {
	switch u {
	case unitISO:
		return named("string", "io.debezium.time.IsoDate")
	case unitConnect:
		return named("int32", "org.apache.kafka.connect.data.Date")
	}
	return named("int32", "io.debezium.time.Date")
}

// clockSchema names the schema of a Time or Timestamp.
func clockSchema(u unit, what string) connectSchema {
	prefix := map[unit]string{unitMicros: "Micro", unitNanos: "Nano", unitISO: "Iso"}[u]
	number := "int64"
	if what == "Time" && (u == unitMillis || u == unitConnect) {
		number = "int32"
	}
	switch u {
	case unitISO:
		number = "string"
	case unitConnect:
		return named(number, "org.apache.kafka.connect.data."+what)
	}
	return named(number, "io.debezium.time."+prefix+what)
}
