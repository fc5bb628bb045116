package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// empty are words that tell a reader nothing about what is inside.
var empty = []string{"util", "utils", "utility", "utilities", "common", "helper", "helpers", "manager", "managers", "types",
	"misc", "shared", "base", "core", "models", "pkg", "stuff", "lib", "interfaces"}

// emptyType matches type names that end in such a word.
var emptyType = regexp.MustCompile(`(Utils?|Helpers?|Managers?|Common|Misc|Base)$`)

// Names reports folders, files and types whose name does not say what they hold.
func Names(t *Tree) []Violation {
	var found []Violation
	for p := range t.Text {
		for part := range strings.SplitSeq(strings.TrimSuffix(p, path.Ext(p)), "/") {
			for word := range strings.FieldsFuncSeq(strings.ToLower(part), func(r rune) bool { return strings.ContainsRune("_-. ", r) }) {
				if slices.Contains(empty, word) {
					found = append(found, Violation{p, fmt.Sprintf("the name %q says nothing: name what it holds", word)})
				}
			}
		}
	}
	for _, f := range t.Go {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && emptyType.MatchString(spec.Name.Name) {
				found = append(found, f.At(spec, "type %s: name what it does", spec.Name.Name))
			}
			return true
		})
	}
	return found
}
