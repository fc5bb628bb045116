package router

import "strconv"

// inferred is the Connect schema that Debezium infers from a JSON document when it expands it (JsonSchemaData): everything
// optional, numbers by size, an object named after its path, null members and empty arrays left out.
//
// The payload beside it keeps the document's own text, so it may have members that the schema has not; a reader that
// follows the schema does not see those, which is what Debezium would have given it.
type inferred struct {
	kind   string // as in connectSchema
	name   string
	fields []inferredField
	byName map[string]*inferred // of fields, by quoted name
	items  *inferred
}

type inferredField struct {
	quoted []byte // the name as a JSON string
	schema *inferred
}

// maxInferredDepth bounds the work: each level reads its text again.
const maxInferredDepth = 64

// infer infers the schema of a valid document. It gives up on arrays of mixed types, as Debezium does, and on what kills
// Debezium's task; the document is then written as a string. A nil schema with ok is null or an empty array.
func infer(key string, value []byte, depth int) (schema *inferred, ok bool) {
	if depth > maxInferredDepth || len(value) == 0 {
		return nil, false
	}
	switch value[0] {
	case '{':
		return inferObject(key, value, depth)
	case '[':
		return inferArray(key, value, depth)
	case '"':
		return &inferred{kind: "string"}, true
	case 't', 'f':
		return &inferred{kind: "boolean"}, true
	case 'n':
		return nil, true
	}
	return &inferred{kind: numberKind(value)}, true
}

func numberKind(number []byte) string {
	if _, err := strconv.ParseInt(string(number), 10, 32); err == nil {
		return "int32"
	}
	if _, err := strconv.ParseInt(string(number), 10, 64); err == nil {
		return "int64"
	}
	return "double"
}

func inferObject(key string, value []byte, depth int) (*inferred, bool) {
	schema := &inferred{kind: "struct", name: key, byName: map[string]*inferred{}}
	object, _ := openObject(value)
	for {
		quoted, value, more := object.next()
		if !more {
			return schema, object.whole
		}
		name := string(appendUnquoted(nil, quoted))
		path := name
		if key != "" {
			path = key + "." + name
		}
		field, ok := infer(path, value, depth+1)
		if !ok {
			return nil, false
		}
		if field != nil && schema.byName[string(quoted)] == nil {
			schema.add(inferredField{quoted, field})
		}
	}
}

func (s *inferred) add(f inferredField) {
	s.fields = append(s.fields, f)
	s.byName[string(f.quoted)] = f.schema
}

// inferArray wants all elements that are not null to be of one kind. Objects are merged; other elements are known by the
// first one.
func inferArray(key string, value []byte, depth int) (*inferred, bool) {
	elements := members{rest: value[1:]}
	var items *inferred
	empty := true
	for {
		element, more := elements.element()
		if !more {
			break
		}
		empty = false
		elementKey := ""
		if element[0] == '{' {
			elementKey = key
		}
		schema, ok := infer(elementKey, element, depth+1)
		switch {
		case !ok:
			return nil, false
		case schema == nil && element[0] == 'n':
		case schema == nil:
			return nil, false // an empty array inside
		case items == nil:
			items = schema
		case !items.merge(schema):
			return nil, false
		}
	}
	if empty {
		return nil, elements.whole
	}
	return &inferred{kind: "array", items: items}, items != nil && elements.whole
}

// merge adds the members of another element, or tells that the two are of different kinds.
func (s *inferred) merge(other *inferred) bool {
	if s.kind != other.kind {
		return false
	}
	if s.kind == "array" {
		return s.items.merge(other.items)
	}
	for _, f := range other.fields {
		if mine := s.byName[string(f.quoted)]; mine == nil {
			s.add(f)
		} else if !mine.merge(f.schema) {
			return false
		}
	}
	return true
}

// append appends the schema as JsonConverter writes it, less the closing brace.
func (s *inferred) append(dst []byte) []byte {
	dst = append(append(append(dst, `{"type":"`...), s.kind...), '"')
	switch s.kind {
	case "struct":
		dst = append(dst, `,"fields":[`...)
		for i, f := range s.fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(f.schema.append(dst), `,"field":`...)
			dst = append(appendJSONString(dst, appendUnquoted(nil, f.quoted)), '}')
		}
		dst = append(dst, ']')
	case "array":
		dst = append(s.items.append(append(dst, `,"items":`...)), '}')
	}
	dst = append(dst, `,"optional":true`...)
	if s.name != "" {
		dst = appendJSONString(append(dst, `,"name":`...), s.name)
	}
	return dst
}
