package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/walrelay/walrelay/router"
)

var update = flag.Bool("update", false, "write walrelay.example.yaml and docs/configuration.md anew")

const (
	exampleFile   = "../walrelay.example.yaml"
	referenceFile = "../docs/configuration.md"
)

// The example file and the reference are made of the struct and its comments; nothing in them is written by hand but
// the text around the generated tables.
func TestReferenceIsGenerated(t *testing.T) {
	comments := readComments(t)
	before, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		exampleFile:   example(t, comments),
		referenceFile: reference(t, string(before), comments),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not what the struct says (go test ./config -update writes it anew):\n%s", path, diff)
		}
	}
}

// The example with all its comment signs taken away is the default configuration.
func TestExampleIsTheDefault(t *testing.T) {
	content, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Postgres.URL, want.Kafka.Brokers = NewConnString(urlExample), []string{"localhost:9092"}
	as := load(t, Sources{File: exampleFile})
	if err := check(as); err != nil {
		t.Errorf("as it is: %v", err)
	}
	all := regexp.MustCompile(`(?m)^( *)#([^ #\n])`).ReplaceAllString(string(content), "$1$2")
	uncommented := load(t, Sources{File: write(t, "walrelay.yaml", all)})
	if err := check(uncommented); err != nil {
		t.Errorf("uncommented: %v", err)
	}
	for name, got := range map[string]Config{"as it is": as, "uncommented": uncommented} {
		for _, s := range want.settings() {
			mine, theirs := scalarText(s), scalarText(byKey(t, &got, s.key))
			if s.key != "tables" && mine != theirs {
				t.Errorf("%s: %s is %s, want %s", name, s.key, theirs, mine)
			}
		}
	}
	if len(uncommented.Tables) != 1 || uncommented.Tables[0].Name != "public.outbox" {
		t.Errorf("tables: %v", uncommented.Tables)
	}
}

// readComments gives the comments of all structs that make up the configuration, as package.Type.Field and
// package.Type.
func readComments(t *testing.T) map[string]string {
	t.Helper()
	comments := make(map[string]string)
	for name, path := range map[string]string{"config": "config.go", "admin": "../admin/admin.go", "router": "../router/config.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			declared, ok := node.(*ast.GenDecl)
			if !ok || declared.Tok != token.TYPE {
				return true
			}
			for _, spec := range declared.Specs {
				structure, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
				if !ok {
					continue
				}
				prefix := name + "." + spec.(*ast.TypeSpec).Name.Name
				comments[prefix] = oneLine(declared.Doc)
				for _, field := range structure.Fields.List {
					for _, ident := range field.Names {
						comments[prefix+"."+ident.Name] = oneLine(field.Doc)
					}
				}
			}
			return true
		})
	}
	return comments
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// entry is one key in the order of the file.
type entry struct {
	setting
	depth   int
	section bool
	comment string
}

// entries are all keys and sections of a struct.
func entries(v reflect.Value, path string, depth int, comments map[string]string) []entry {
	var all []entry
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if option == "inline" && v.Type() != reflect.TypeFor[Messages]() { // those are the keys of a table
			all = append(all, entries(v.Field(i), path, depth, comments)...)
		}
		if name == "" {
			continue
		}
		comment := comments[v.Type().String()+"."+field.Name]
		if comment == "" && v.Field(i).Kind() == reflect.Struct {
			comment = comments[field.Type.String()]
		}
		e := entry{setting{join(path, name), v.Field(i)}, depth, isSection(v.Field(i)), spoken(comment, field, v.Type())}
		all = append(all, e)
		if e.section {
			all = append(all, entries(v.Field(i), e.key, depth+1, comments)...)
		}
	}
	return all
}

var goName = regexp.MustCompile(`(^|[^.\w])([A-Z][a-z]+(?:[A-Z][a-z]+)*)`)

// spoken makes of a Go comment, which begins with the name of a field or type, a sentence for a person. In package
// router, whose comments speak of other fields, keys take the place of the fields' names.
func spoken(comment string, field reflect.StructField, owner reflect.Type) string {
	if owner.PkgPath() == reflect.TypeFor[router.Config]().PkgPath() {
		keys := routerKeys(reflect.TypeFor[router.Config](), map[string]string{})
		comment = goName.ReplaceAllStringFunc(comment, func(match string) string {
			word := strings.TrimLeftFunc(match, func(r rune) bool { return r < 'A' || r > 'Z' })
			if key, ok := keys[word]; ok && word != field.Name {
				return strings.TrimSuffix(match, word) + "`" + key + "`"
			}
			return match
		})
	}
	words := strings.Fields(comment)
	if len(words) > 2 && (words[0] == field.Name || words[0] == field.Type.Name()) && words[1] != "of" && words[1] != "to" {
		words = words[1:]
		if words[0] == "is" || words[0] == "are" {
			words = words[1:]
			if !slices.Contains([]string{"the", "a", "an", "our", "how", "what", "where", "about"}, words[0]) {
				return strings.Join(words, " ") // a value, which is written as it is
			}
		}
		words[0] = strings.ToUpper(words[0][:1]) + words[0][1:]
	}
	return strings.Join(words, " ")
}

// routerKeys are the keys of package router by the names of their fields, where a name has only one key.
func routerKeys(t reflect.Type, keys map[string]string) map[string]string {
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Type.Kind() == reflect.Struct {
			routerKeys(field.Type, keys)
		}
		keys[field.Name] = field.Tag.Get("yaml")
	}
	return keys
}

// scalarText is the value as it stands in a file.
func scalarText(s setting) string {
	text, err := yaml.Marshal(Config{}.value(s))
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}

const exampleHead = `# All keys of walrelay with their defaults. Only the two that are not commented out are needed.
# Generated from the source, as docs/configuration.md: go test ./config -update
#
#   walrelay config check --config walrelay.yaml   says everything that is wrong
#   walrelay config print --config walrelay.yaml   shows what is in effect, and where it comes from
`

func example(t *testing.T, comments map[string]string) string {
	t.Helper()
	c := Default()
	c.Postgres.URL, c.Kafka.Brokers = NewConnString(urlExample), []string{"localhost:9092"}
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, e := range entries(reflect.ValueOf(&c).Elem(), "", 0, comments) {
		if e.depth == 0 {
			b.WriteString("\n")
		}
		writeEntry(&b, e, "", func() {
			for i, column := range entries(reflect.ValueOf(&c.Tables[0]).Elem(), "", 2, comments) {
				dash := ""
				if i == 0 {
					column.depth, dash = 1, "- "
				}
				writeEntry(&b, column, dash, nil)
			}
		})
	}
	return b.String()
}

func writeEntry(b *strings.Builder, e entry, dash string, tables func()) {
	indent := strings.Repeat("  ", e.depth)
	for _, line := range wrap(strings.ReplaceAll(e.comment, "`", ""), 116-len(indent)) {
		fmt.Fprintf(b, "%s# %s\n", indent, line)
	}
	name := e.key[strings.LastIndex(e.key, ".")+1:]
	switch value := scalarText(e.setting); {
	case e.key == "postgres.url":
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, urlExample)
	case e.key == "kafka.brokers":
		fmt.Fprintf(b, "%s%s: [localhost:9092]\n", indent, name)
	case e.section && (e.key == "postgres" || e.key == "kafka"):
		fmt.Fprintf(b, "%s%s:\n", indent, name)
	case e.section:
		fmt.Fprintf(b, "%s#%s%s:\n", indent, dash, name)
	case e.key == "tables":
		fmt.Fprintf(b, "%s#%s:\n", indent, name)
		tables()
	case e.value.Kind() == reflect.Slice && e.value.IsNil(): // [] would mean none, also of a preset
		fmt.Fprintf(b, "%s#%s%s:\n", indent, dash, name)
	default:
		fmt.Fprintf(b, "%s#%s%s: %s\n", indent, dash, name, value)
	}
}

// wrap breaks a text into lines of at most so many letters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// reference puts the two tables between their marks.
func reference(t *testing.T, text string, comments map[string]string) string {
	t.Helper()
	c := Default()
	keys := entries(reflect.ValueOf(&c).Elem(), "", 0, comments)
	table := entries(reflect.ValueOf(&Table{}).Elem(), "", 0, comments)
	for name, generated := range map[string]string{"keys": rows(keys, true), "table": rows(table, false)} {
		begin, end := "<!-- "+name+": generated -->\n", "<!-- end -->"
		head, rest, ok := strings.Cut(text, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no mark %q with %q behind it", referenceFile, begin, end)
		}
		text = head + begin + "\n" + generated + "\n" + end + tail
	}
	return text
}

func rows(all []entry, variables bool) string {
	var b strings.Builder
	if variables {
		b.WriteString("| Key | Variable | Default | Meaning |\n|---|---|---|---|\n")
	} else {
		b.WriteString("| Key | Meaning |\n|---|---|\n")
	}
	for _, e := range all {
		comment := strings.ReplaceAll(strings.ReplaceAll(e.comment, "|", "\\|"), "<", "\\<")
		switch {
		case e.section && variables:
			fmt.Fprintf(&b, "| **`%s`** | | | %s |\n", e.key, comment)
		case e.section:
			fmt.Fprintf(&b, "| **`%s`** | %s |\n", e.key, comment)
		case variables:
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.key, code(e.variable()), code(e.defaultText()), comment)
		default:
			fmt.Fprintf(&b, "| `%s` | %s |\n", e.key, comment)
		}
	}
	return b.String()
}

func (e entry) defaultText() string {
	if tables, ok := e.value.Interface().([]Table); ok {
		return tables[0].Name
	}
	if e.value.Kind() == reflect.Slice || e.value.Kind() == reflect.Map {
		return e.shown()
	}
	return strings.Trim(scalarText(e.setting), `"`)
}

func code(text string) string {
	if text == "" || text == "map[]" {
		return ""
	}
	return "`" + text + "`"
}
