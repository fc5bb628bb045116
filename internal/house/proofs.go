package house

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// guarantees is the page that names the test of each promise.
const guarantees = "docs/guarantees.md"

var (
	namedTest     = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*\*?`)
	namedScenario = regexp.MustCompile("scenarios? ((?:`[a-z-]+\\*?`(?:, )?)+)")
	quoted        = regexp.MustCompile("`([a-z-]+\\*?)`")
)

// Proofs reports tests and scenarios that the page of guarantees names and that do not exist. A * stands for any rest.
func Proofs(t *Tree) []Violation {
	var tests, scenarios []string
	for _, f := range t.Go {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.Test && fn.Recv == nil {
				tests = append(tests, fn.Name.Name)
			}
		}
	}
	const folder = "relay/testdata/scenarios/"
	for p := range t.Text {
		if name, ok := strings.CutPrefix(p, folder); ok {
			scenarios = append(scenarios, strings.TrimSuffix(name, ".txt"))
		}
	}
	var found []Violation
	want := func(kind, name string, have []string) {
		for _, one := range have {
			if prefix, any := strings.CutSuffix(name, "*"); one == name || any && strings.HasPrefix(one, prefix) {
				return
			}
		}
		found = append(found, Violation{guarantees, fmt.Sprintf("names the %s %s, which does not exist", kind, name)})
	}
	for _, name := range namedTest.FindAllString(t.Text[guarantees], -1) {
		want("test", name, tests)
	}
	for _, list := range namedScenario.FindAllStringSubmatch(t.Text[guarantees], -1) {
		for _, name := range quoted.FindAllStringSubmatch(list[1], -1) {
			want("scenario", name[1], scenarios)
		}
	}
	return found
}
