package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/walrelay/walrelay/router"
)

// YAML is the configuration as a file, with everything that was found as comments.
func (i Import) YAML() string {
	var b strings.Builder
	b.WriteString("# walrelay's configuration, translated by walrelay import-debezium. How to take over from a Debezium that runs:\n" +
		"# docs/takeover.md\n")
	i.comment(&b, "To be decided by a person before this is used", i.Decisions(), func(ImportFinding) bool { return true })
	i.comment(&b, "Secrets, which were not copied", i.Secrets, func(ImportFinding) bool { return true })
	open := func(f ImportFinding) bool { return !f.Decide && !i.isSecret(f.Property) }
	i.comment(&b, "Not supported, and what happens instead", i.Findings, func(f ImportFinding) bool { return f.Answer == router.NotSupported && open(f) })
	i.comment(&b, "Translated", i.Findings, func(f ImportFinding) bool { return f.Answer == router.Translated && open(f) })
	i.comment(&b, "Not needed", i.Findings, func(f ImportFinding) bool { return f.Answer == router.NotNeeded && open(f) })
	b.WriteString("\n")
	standard := Default()
	node := i.Config.changed(reflect.ValueOf(&i.Config).Elem(), reflect.ValueOf(&standard).Elem(), "")
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		panic(err) // nodes of scalars and a strings.Builder
	}
	return b.String()
}

func (i Import) isSecret(property string) bool {
	for _, s := range i.Secrets {
		if s.Property == property {
			return true
		}
	}
	return false
}

// comment writes those of the findings that are wanted, one a line.
func (i Import) comment(b *strings.Builder, title string, findings []ImportFinding, wanted func(ImportFinding) bool) {
	var lines []string
	for _, f := range findings {
		if wanted(f) {
			lines = append(lines, fmt.Sprintf("#   %s: %s\n", printable(f.Property), printable(f.Note)))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "#\n# %s:\n%s", title, strings.Join(lines, ""))
	}
}

// printable keeps a text in its comment.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// changed has the keys that differ from the defaults or come from a property, each with its source.
func (c Config) changed(v, standard reflect.Value, path string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	defaults := fields(standard)
	for n, s := range fields(v) {
		s.key = join(path, s.key)
		name := s.key[strings.LastIndex(s.key, ".")+1:]
		var value *yaml.Node
		switch {
		case isSection(s.value):
			if value = c.changed(s.value, defaults[n].value, s.key); len(value.Content) == 0 {
				continue
			}
		case c.from[s.key] == "" && reflect.DeepEqual(s.value.Interface(), defaults[n].value.Interface()):
			continue
		case s.key == "postgres.url": // it has no password, and masking may hide all of it
			value = scalar(c.Postgres.URL.Reveal(), "!!str")
		default:
			value = c.value(s)
		}
		key := scalar(name, "!!str")
		comment := &value.LineComment
		if value.Kind != yaml.ScalarNode && len(value.Content) > 0 {
			comment = &key.LineComment
		}
		*comment = printable(cmp.Or(c.from[s.key], *comment))
		node.Content = append(node.Content, key, value)
	}
	return node
}
