package fault

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/errors.md anew")

const page = "../docs/errors.md"

// docs/errors.md is the catalogue.
func TestPageIsGenerated(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Errors

Every error that ends walrelay, or keeps it from relaying, has a code. It stands behind the text in brackets, such as ` + "`[slot-lost]`" + `,
unless it would add nothing (usage, configuration, unexpected); the log, the status and ` + "`walrelay doctor --json`" + ` have it as ` + "`code`" + `. The text in front of it names the table, slot or topic and the exact statement that mends it; this page
says what the code means. Exit codes are explained by ` + "`walrelay --help`" + `. Generated from the code.
`)
	for _, e := range Catalogue {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n**Remedy.** %s\n", e.Code, e.Meaning, e.Remedy)
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("%s is not what the code has (go test ./fault -update):\n%s", page, diff)
	}
}

var legal = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// Every code has one entry, with a meaning and a remedy.
func TestCatalogueIsComplete(t *testing.T) {
	entries := map[Code]bool{}
	for _, e := range Catalogue {
		if entries[e.Code] || !legal.MatchString(string(e.Code)) || e.Meaning == "" || e.Remedy == "" {
			t.Errorf("entry %+v", e)
		}
		entries[e.Code] = true
	}
	file, err := parser.ParseFile(token.NewFileSet(), "catalogue.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		constants++
		if code := Code(strings.Trim(literal.Value, `"`)); !entries[code] {
			t.Errorf("%s has no entry", code)
		}
		return true
	})
	if constants != len(Catalogue) || constants < 40 {
		t.Errorf("%d codes, %d entries", constants, len(Catalogue))
	}
}

// Every error that stops a relay is made with a code, and every code is made somewhere.
func TestErrorsAreCoded(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "fault" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "deploy" || d.Name() == "tools"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if name := typeName(n.Type); (name == "SetupError" || name == "StopError" || name == "ConnectError") && !hasCode(n) {
					t.Errorf("%v: a %s without a code", fset.Position(n.Pos()), name)
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "fault" {
					used[n.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("catalogue.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +Code = "`).FindAllStringSubmatch(string(source), -1) {
		if !used[m[1]] && m[1] != "Unexpected" {
			t.Errorf("fault.%s is used nowhere", m[1])
		}
	}
}

func typeName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.SelectorExpr:
		return expr.Sel.Name
	}
	return ""
}

// hasCode tells whether a literal has a code, or a cause whose code stands for it.
func hasCode(literal *ast.CompositeLit) bool {
	code, cause := false, false
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, _ := pair.Key.(*ast.Ident)
		code = code || key != nil && key.Name == "Code"
		cause = cause || key != nil && key.Name == "Err"
	}
	return code || cause && typeName(literal.Type) == "StopError"
}

type known struct{ error }

func (known) FaultCode() Code { return SlotLost }

func TestOf(t *testing.T) {
	if got := Of(fmt.Errorf("run: %w", known{errors.New("x")})); got != SlotLost {
		t.Errorf("got %s", got)
	}
	if got := Of(errors.New("x")); got != Unexpected {
		t.Errorf("got %s", got)
	}
}
