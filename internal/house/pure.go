package house

import (
	"go/ast"
	"slices"
)

// impure are the standard packages that bring I/O, time that passes, or cancellation.
var impure = []string{"net", "os", "syscall", "io/fs", "context", "log", "testing", "runtime", "math/rand", "crypto/rand"}

// clock are the parts of package time that look at a clock; its types are plain values.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}

// Pure reports I/O, clocks and goroutines in packages that hold only logic, and in the window of the checkpoint.
func Pure(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Go {
		if f.Test || !layers[f.Dir()].pure && f.Path != "checkpoint/window.go" {
			continue
		}
		for _, spec := range f.AST.Imports {
			p := spec.Path.Value[1 : len(spec.Path.Value)-1]
			if below(p, impure) || f.Path == "checkpoint/window.go" && below(p, []string{pgx}) {
				found = append(found, f.At(spec, "imports %q, but this code is pure", p))
			}
		}
		f.uses("time", func(sel *ast.SelectorExpr) {
			if slices.Contains(clock, sel.Sel.Name) {
				found = append(found, f.At(sel, "time.%s, but this code is pure", sel.Sel.Name))
			}
		})
		for _, n := range goroutines(f) {
			found = append(found, f.At(n, "starts a goroutine, but this code is pure"))
		}
	}
	return found
}
