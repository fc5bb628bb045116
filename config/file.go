package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file reads the YAML file. It walks the nodes itself, since a decoder forgets lines, the paths of keys, and which keys
// were there at all.
func (l *loader) file(path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		l.problem(path, "", "the configuration file cannot be read: "+cause(err))
		return
	}
	document, err := parseYAML(content)
	if err != nil {
		l.problem(path, "", err.Error())
		return
	}
	if document == nil {
		return
	}
	f := file{loader: l, name: filepath.Base(path)}
	f.section(document, reflect.ValueOf(l.config).Elem(), "")
}

// parseYAML is the root of the only document, or nil when there is none.
func parseYAML(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(err)
	}
	if decoder.Decode(&second) != io.EOF {
		return nil, errors.New("want one YAML document, and nothing behind a line ---")
	}
	return document.Content[0], nil
}

// syntaxError is the parser's answer. An unquoted secret that begins with * is an anchor to YAML, and its name would
// be in the answer.
func syntaxError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "unknown anchor") {
		return errors.New("not valid YAML: a value that begins with * must be quoted")
	}
	return errors.New("not valid YAML: " + text)
}

// file is the walk over one file.
type file struct {
	*loader
	name string
}

func (f *file) at(node *yaml.Node) string { return fmt.Sprintf("%s:%d", f.name, node.Line) }

func (f *file) wrong(node *yaml.Node, key, want string) {
	f.problems = append(f.problems, Problem{Key: key, From: f.at(node), Want: want})
}

// section sets the fields of the struct v from a mapping.
func (f *file) section(node *yaml.Node, v reflect.Value, path string) {
	node = resolve(node)
	switch {
	case isNull(node): // all of it commented out
		return
	case node.Kind != yaml.MappingNode:
		f.wrong(node, orFile(path), "want keys below it, one a line")
		return
	}
	pairs := f.pairs(node, path)
	for _, p := range pairs {
		if p.key.Tag == "!!merge" { // first, so that keys written out go before it
			f.merge(p.value, v, path)
		}
	}
	for _, p := range pairs {
		if p.key.Tag != "!!merge" {
			f.field(p.key, p.value, v, path)
		}
	}
}

type pair struct{ key, value *yaml.Node }

// pairs are the keys of a mapping and their values; a key that comes twice is a problem.
func (f *file) pairs(node *yaml.Node, path string) []pair {
	var all []pair
	lines := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if before, twice := lines[key.Value]; twice {
			f.wrong(key, join(path, key.Value), fmt.Sprintf("given before, in line %d; want it once", before))
			continue
		}
		lines[key.Value] = key.Line
		all = append(all, pair{key, node.Content[i+1]})
	}
	return all
}

// merge takes the keys of <<, which may be one mapping or a list of them.
func (f *file) merge(node *yaml.Node, v reflect.Value, path string) {
	node = resolve(node)
	if node.Kind != yaml.SequenceNode {
		f.section(node, v, path)
		return
	}
	for _, item := range node.Content {
		f.section(item, v, path)
	}
}

func (f *file) field(key, value *yaml.Node, v reflect.Value, path string) {
	if key = resolve(key); key.Kind != yaml.ScalarNode || key.Value == "" {
		f.wrong(key, orFile(path), "want a word as key")
		return
	}
	for _, s := range fields(v) {
		if s.key != key.Value {
			continue
		}
		s.key = join(path, s.key)
		if isSection(s.value) {
			f.section(value, s.value, s.key)
		} else {
			f.value(resolve(value), s)
		}
		return
	}
	f.wrong(key, join(path, key.Value), "no such key"+didYouMean(join(path, key.Value), keysBelow(v, path)))
}

// keysBelow are all keys and sections from here on.
func keysBelow(v reflect.Value, path string) []string {
	var keys []string
	for _, s := range fields(v) {
		keys = append(keys, join(path, s.key))
		if isSection(s.value) {
			keys = append(keys, keysBelow(s.value, join(path, s.key))...)
		}
	}
	return keys
}

// value sets one key. A key without a value keeps its default.
func (f *file) value(node *yaml.Node, s setting) {
	if isNull(node) {
		return
	}
	if node.Kind == yaml.ScalarNode && s.value.Kind() != reflect.Map {
		f.assign(s, node.Value, f.at(node))
		return
	}
	f.mark(s.key, f.at(node))
	switch {
	case node.Kind == yaml.SequenceNode && s.value.Type() == reflect.TypeFor[[]Table]():
		s.value.Set(reflect.ValueOf(f.tables(node, s.key)))
	case node.Kind == yaml.SequenceNode && s.value.Kind() == reflect.Slice:
		list := make([]string, 0, len(node.Content))
		for _, item := range node.Content {
			list = append(list, f.text(item, s.key))
		}
		s.value.Set(reflect.ValueOf(list))
	case node.Kind == yaml.MappingNode && s.value.Kind() == reflect.Map:
		values := make(map[string]string)
		for _, p := range f.pairs(node, s.key) {
			values[p.key.Value] = f.text(p.value, join(s.key, p.key.Value))
		}
		s.value.Set(reflect.ValueOf(values))
	default:
		f.wrong(node, s.key, "want "+shapeOf(s.value))
	}
}

func shapeOf(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "name: value, one a line"
	}
	return "a single value"
}

func (f *file) tables(node *yaml.Node, key string) []Table {
	tables := make([]Table, len(node.Content))
	for i, item := range node.Content {
		path := fmt.Sprintf("%s[%d]", key, i)
		f.mark(path, f.at(item))
		if item = resolve(item); item.Kind == yaml.ScalarNode {
			tables[i].Name = f.text(item, path)
			continue
		}
		f.section(item, reflect.ValueOf(&tables[i]).Elem(), path)
	}
	return tables
}

func (f *file) text(node *yaml.Node, key string) string {
	if node = resolve(node); node.Kind != yaml.ScalarNode || isNull(node) {
		f.wrong(node, key, "want a text")
	}
	return node.Value
}

func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// cause is the system's answer without the operation and path, which the message around it has.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
