package house

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// minDocumented is the least share of exported identifiers with a comment, in each package.
const minDocumented = 0.95

// PackageDocs reports packages without exactly one package comment, in doc.go.
func PackageDocs(t *Tree) []Violation {
	var found []Violation
	documented := map[string]bool{}
	for _, f := range t.Go {
		if _, seen := documented[f.Dir()]; !seen {
			documented[f.Dir()] = false
		}
		if f.AST.Doc == nil {
			continue
		}
		if path.Base(f.Path) == "doc.go" {
			documented[f.Dir()] = true
		} else {
			found = append(found, f.At(f.AST.Doc, "package comment outside doc.go"))
		}
	}
	for dir, ok := range documented {
		if !ok {
			found = append(found, Violation{dir, "no package comment in doc.go"})
		}
	}
	return found
}

// Documented reports the exported identifiers without a comment, in packages that have too many of them.
func Documented(t *Tree) []Violation {
	total := map[string]int{}
	bare := map[string][]Violation{}
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		exported(f, func(name string, n ast.Node, documented bool) {
			total[f.Dir()]++
			if !documented {
				bare[f.Dir()] = append(bare[f.Dir()], f.At(n, "%s is exported and has no comment", name))
			}
		})
	}
	var found []Violation
	for dir, list := range bare {
		if share := 1 - float64(len(list))/float64(total[dir]); share < minDocumented {
			found = append(found, Violation{dir, fmt.Sprintf("%.0f %% of the exported identifiers are documented, at least %.0f", share*100, minDocumented*100)})
			found = append(found, list...)
		}
	}
	return found
}

// exported calls visit for each exported function, type, method of an exported type, constant and variable. Fields are left
// out: the comment of their type speaks for those that need no word.
func exported(f *File, visit func(name string, n ast.Node, documented bool)) {
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			receiver := receiverName(d)
			if d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) && !conventional[d.Name.Name] {
				visit(strings.TrimPrefix(receiver+"."+d.Name.Name, "."), d, d.Doc != nil)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						visit(spec.Name.Name, spec, spec.Doc != nil || d.Doc != nil)
						methods(spec, visit)
					}
				case *ast.ValueSpec:
					values(d, spec, visit)
				}
			}
		}
	}
}

// conventional are methods whose contract is known from the standard library.
var conventional = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Is": true, "MarshalText": true, "UnmarshalText": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalYAML": true, "UnmarshalYAML": true}

func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	return t.(*ast.Ident).Name
}

// values visits the names of a constant or variable. A comment on the group counts for all of it.
func values(d *ast.GenDecl, spec *ast.ValueSpec, visit func(string, ast.Node, bool)) {
	documented := d.Doc != nil || spec.Doc != nil || spec.Comment != nil
	for _, name := range spec.Names {
		if name.IsExported() {
			visit(name.Name, spec, documented)
		}
	}
}

// methods visits the methods of an interface.
func methods(spec *ast.TypeSpec, visit func(string, ast.Node, bool)) {
	contract, ok := spec.Type.(*ast.InterfaceType)
	if !ok {
		return
	}
	for _, m := range contract.Methods.List {
		for _, name := range m.Names {
			if name.IsExported() {
				visit(spec.Name.Name+"."+name.Name, m, m.Doc != nil || m.Comment != nil)
			}
		}
	}
}
