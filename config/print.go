package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// YAML is the configuration as it is in effect, secrets masked, with the source of each value that is not a default.
// Keys of a table or of messages that are not set are left out.
func (c Config) YAML() string {
	c.Postgres.Slot, c.Postgres.Publication = c.names()
	node := c.section(reflect.ValueOf(&c).Elem(), "")
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		panic(err) // nodes of scalars and a strings.Builder
	}
	return b.String()
}

// String is YAML, so that no verb of fmt prints a secret or hundreds of braces.
func (c Config) String() string { return c.YAML() }

// GoString is String.
func (c Config) GoString() string { return c.YAML() }

func (c Config) section(v reflect.Value, path string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range fields(v) {
		key, value := scalar(s.key, "!!str"), (*yaml.Node)(nil)
		s.key = join(path, s.key)
		ofRows := strings.HasPrefix(path, "tables[") || strings.HasPrefix(s.key, "messages.") && s.key != "messages.enabled"
		switch {
		case ofRows && s.value.IsZero():
			continue
		case isSection(s.value):
			value = c.section(s.value, s.key)
		default:
			value = c.value(s)
		}
		comment := &value.LineComment
		if value.Kind != yaml.ScalarNode && len(value.Content) > 0 {
			comment = &key.LineComment
		}
		*comment = c.from[s.key]
		node.Content = append(node.Content, key, value)
	}
	return node
}

func (c Config) value(s setting) *yaml.Node {
	switch v := s.value.Interface().(type) {
	case []Table:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v {
			list.Content = append(list.Content, c.section(reflect.ValueOf(&v[i]).Elem(), fmt.Sprintf("tables[%d]", i)))
		}
		return list
	case []string:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		if len(v) == 0 {
			list.Style = yaml.FlowStyle
		}
		for _, item := range v {
			list.Content = append(list.Content, scalar(item, "!!str"))
		}
		return list
	case map[string]string:
		mapping := &yaml.Node{Kind: yaml.MappingNode}
		if len(v) == 0 {
			mapping.Style = yaml.FlowStyle
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			mapping.Content = append(mapping.Content, scalar(name, "!!str"), scalar(v[name], "!!str"))
		}
		return mapping
	case time.Duration:
		return scalar(short(v), "!!str")
	}
	switch s.value.Kind() {
	case reflect.Bool:
		return scalar(s.shown(), "!!bool")
	case reflect.String, reflect.Struct:
		return scalar(s.shown(), "!!str")
	}
	return scalar(s.shown(), "") // a number, or a size with its unit
}

func scalar(text, tag string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

// short is a duration without the units that are zero: 1m in place of 1m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
