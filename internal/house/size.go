package house

import (
	"fmt"
	"go/ast"
	"slices"
)

const (
	maxFile     = 400
	maxTestFile = 800
	maxMain     = 60
	maxFunction = 80
	maxTest     = 130 // a table and its loop
	maxTypical  = 50  // nine of ten functions, tests not counted
)

// Sizes reports files and functions that have grown too long, in lines.
func Sizes(t *Tree) []Violation {
	var found []Violation
	var functions []int
	for _, f := range t.Go {
		if limit := fileLimit(f); f.Lines > limit {
			found = append(found, Violation{f.Path, fmt.Sprintf("%d lines, limit %d", f.Lines, limit)})
		}
		f.functions(func(fn *ast.FuncDecl) {
			n := f.lines(fn)
			limit := maxFunction
			if f.Test {
				limit = maxTest
			}
			if n > limit {
				found = append(found, f.At(fn, "function %s has %d lines, limit %d", fn.Name.Name, n, limit))
			}
			if !f.Test {
				functions = append(functions, n)
			}
		})
	}
	slices.Sort(functions)
	if len(functions) > 0 {
		if p90 := functions[len(functions)*9/10]; p90 > maxTypical {
			found = append(found, Violation{"module", fmt.Sprintf("one function in ten has %d lines or more, limit %d", p90, maxTypical)})
		}
	}
	return found
}

func fileLimit(f *File) int {
	switch {
	case f.Test:
		return maxTestFile
	case f.Dir() == "cmd/walrelay" && f.Path == "cmd/walrelay/main.go":
		return maxMain
	}
	return maxFile
}
