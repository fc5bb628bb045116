package house

import (
	"fmt"
	"go/ast"
)

// goroutineLimits are the places of each package that start a goroutine (go, errgroup's Go). Each has an owner that waits
// for it; raising a number asks for a reason in review. Packages that are not listed start none.
var goroutineLimits = map[string]int{
	"inbox/consumer":          2, // a key's worth of work, forgetting
	"kafka":                   5, // metadata, session, a lane for each broker, scan of tails, and the wait for the end
	"relay":                   6, // beside the caller's: producer, monitor, checkpoint saver; proof; repair's producer and its feeding
	"cmd/walrelay":            4, // HTTP, the relay, signals, systemd
	"demo":                    3,
	"bench":                   6, // writers and consumers of each kind of load, those who watch lag and memory
	"e2e/chaos":               3, // strikes of a cycle, brokers of a strike, a look at the clock
	"internal/workload":       2, // writers, and who turns partitions over
	"examples":                1, // clients
	"internal/pgtest/process": 1, // waits for the child
	"internal/pgtest/cache":   1, // tells how long a download takes
	"internal/faultconn":      3, // accepts, and a pump each way
}

// Goroutines reports packages that start goroutines in more places than they may. Tests are left out: goleak looks after
// those.
func Goroutines(t *Tree) []Violation {
	places := map[string][]Violation{}
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		for _, n := range goroutines(f) {
			places[f.Dir()] = append(places[f.Dir()], f.At(n, "starts a goroutine"))
		}
	}
	var found []Violation
	for dir, list := range places {
		if limit := goroutineLimits[dir]; len(list) > limit {
			found = append(found, Violation{dir, fmt.Sprintf("starts goroutines in %d places, limit %d", len(list), limit)})
			found = append(found, list...)
		}
	}
	return found
}

// goroutines are the places of a file that start one: a go statement, or a call x.Go(f) with one argument, as errgroup
// and sync.WaitGroup have it.
func goroutines(f *File) []ast.Node {
	var list []ast.Node
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			list = append(list, n)
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
				list = append(list, n)
			}
		}
		return true
	})
	return list
}

// StoredContexts reports fields that hold a context: it belongs in the first parameter.
func StoredContexts(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Go {
		name := f.importName("context")
		ast.Inspect(f.AST, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok || name == "" {
				return true
			}
			for _, field := range s.Fields.List {
				if sel, ok := field.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
						found = append(found, f.At(field, "a context is stored in a struct: pass it as first parameter"))
					}
				}
			}
			return true
		})
	}
	return found
}
