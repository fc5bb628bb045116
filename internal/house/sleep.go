package house

import (
	"go/ast"
	"strings"
)

// sleepAllowed are the test files that may sleep outside of what sleepsWell recognises, with the reason.
var sleepAllowed = map[string]string{
	"kafka/resume_real_test.go": "nothing outside shows that a leader has appended what no follower has",
	"kafka/network_test.go":     "delays requests inside its tests' bubbles",
	"relay/scenario_test.go":    "a step of a scenario, which is played in a bubble",
}

// Sleeps reports time.Sleep. Code waits for a signal, or for a timer that a context can cut short. Tests do too, except
// between two looks of a poll, and in a bubble of testing/synctest, where time passes when everybody waits.
func Sleeps(t *Tree) []Violation {
	var found []Violation
	used := map[string]bool{}
	for _, f := range t.Go {
		well := sleepsWell(f)
		f.uses("time", func(sel *ast.SelectorExpr) {
			switch {
			case sel.Sel.Name != "Sleep" || well[sel]:
			case sleepAllowed[f.Path] != "":
				used[f.Path] = true
			default:
				found = append(found, f.At(sel, "time.Sleep: wait for a signal, or poll with a deadline"))
			}
		})
	}
	for p := range sleepAllowed {
		if _, there := t.Text[p]; there && !used[p] {
			found = append(found, Violation{p, "need not be allowed to sleep: take it off the list"})
		}
	}
	return found
}

// sleepsWell are the mentions in a test file that are the last clause of a for statement, as in a poll, or stand in a
// function that is handed to synctest.Test or to a function of ours with Bubble in its name.
func sleepsWell(f *File) map[ast.Node]bool {
	well := map[ast.Node]bool{}
	all := func(root ast.Node) {
		ast.Inspect(root, func(n ast.Node) bool {
			well[n] = true
			return true
		})
	}
	if !f.Test {
		return well
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			if n.Post != nil {
				all(n.Post)
			}
		case *ast.CallExpr:
			if bubble(n.Fun) {
				all(n)
			}
		}
		return true
	})
	return well
}

func bubble(called ast.Expr) bool {
	switch called := called.(type) {
	case *ast.Ident:
		return strings.Contains(called.Name, "Bubble")
	case *ast.SelectorExpr:
		x, ok := called.X.(*ast.Ident)
		return ok && x.Name == "synctest" && called.Sel.Name == "Test" || strings.Contains(called.Sel.Name, "Bubble")
	}
	return false
}
