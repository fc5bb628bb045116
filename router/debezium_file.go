package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParseDebezium reads the options of a connector from a file as people have it: the JSON of the options, of {"name",
// "config"} as Connect's REST interface takes and answers it, of its answer to ?expand=info for a single connector, or
// Java properties. An error repeats no value.
func ParseDebezium(content []byte) (map[string]string, error) {
	content = bytes.TrimSpace(bytes.TrimPrefix(content, []byte("\ufeff")))
	switch {
	case len(content) == 0:
		return nil, errors.New("the file is empty")
	case content[0] == '[':
		return nil, errors.New("a list; want the configuration of one connector, {\"name\": …, \"config\": {…}}")
	case content[0] == '{':
		return jsonOptions(content)
	}
	return propertyOptions(content), nil
}

// propertyOptions reads Java properties.
func propertyOptions(content []byte) map[string]string {
	options := map[string]string{}
	p := properties{rest: content}
	for m := new(Message); p.next(m); m.Reset() {
		options[string(p.name)] = string(p.value)
	}
	return options
}

func jsonOptions(content []byte) (map[string]string, error) {
	members, err := object(content)
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if inner, ok := members["config"]; ok && isObject(inner) {
		return connectOptions(members)
	}
	infos := map[string]map[string]json.RawMessage{}
	for name, member := range members {
		if expanded, err := object(member); err == nil && isObject(expanded["info"]) {
			infos[name], _ = object(expanded["info"])
		}
	}
	switch {
	case len(infos) == 1 && len(members) == 1:
		for _, info := range infos {
			return connectOptions(info)
		}
	case len(infos) > 0:
		return nil, fmt.Errorf("%d connectors (%s); want the configuration of one", len(members), strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	}
	return texts(members)
}

// connectOptions reads {"name", "config", …}.
func connectOptions(members map[string]json.RawMessage) (map[string]string, error) {
	inner, err := object(members["config"])
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	options, err := texts(inner)
	if _, ok := options["name"]; ok || err != nil {
		return options, err
	}
	var name string
	if json.Unmarshal(members["name"], &name) == nil {
		options["name"] = name
	}
	return options, nil
}

// texts are members as Connect takes them: a number or a truth value is its text.
func texts(members map[string]json.RawMessage) (map[string]string, error) {
	options := make(map[string]string, len(members))
	for name, member := range members {
		var text string
		switch {
		case len(member) > 0 && (member[0] == '{' || member[0] == '['):
			return nil, fmt.Errorf("property %q is not a single value; want the configuration of one connector", name)
		case json.Unmarshal(member, &text) != nil:
			text = string(member)
		}
		options[name] = text
	}
	return options, nil
}

func object(content []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(content, &members)
	return members, err
}

func isObject(member json.RawMessage) bool { return len(member) > 0 && member[0] == '{' }
