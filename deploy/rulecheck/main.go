// Rulecheck reads alert rules and their tests, in the formats of Prometheus and promtool, plays the tests with Prometheus'
// own query engine, and prints as JSON what failed and which series each rule and each panel of a dashboard asks for. Or it
// prints which alerts fire on the exposition of a relay.
//
// It is a module of its own: the engine brings many others, and the product must not have them.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

// report is what is printed.
type report struct {
	Failures []string `json:"failures"`
	Rules    []rule   `json:"rules"`
	Panels   []panel  `json:"panels"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Severity    string            `json:"severity"`
	Annotations map[string]string `json:"annotations"`
	Series      []series          `json:"series"`
	Tested      bool              `json:"tested"` // fires in one test, and does not in another
}

type panel struct {
	Title  string   `json:"title"`
	Series []series `json:"series"`
}

// series is a selector of an expression: the metric, and its matchers by label.
type series struct {
	Metric string              `json:"metric"`
	Labels map[string][]string `json:"labels"`
}

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "fires":
		err = fires(os.Args[2], os.Args[3], os.Stdout)
	case len(os.Args) == 4:
		var r report
		if r, err = check(os.Args[1], os.Args[2], os.Args[3]); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: rulecheck RULES TESTS DASHBOARD, or rulecheck fires RULES EXPOSITION")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(rulesFile, testsFile, dashboardFile string) (report, error) {
	rules, err := readRules(rulesFile)
	if err != nil {
		return report{}, err
	}
	tests, err := readTests(testsFile)
	if err != nil {
		return report{}, err
	}
	panels, err := readPanels(dashboardFile)
	if err != nil {
		return report{}, err
	}
	r := report{Failures: []string{}, Panels: panels}
	outcomes, failures, err := play(rules, tests)
	if err != nil {
		return report{}, err
	}
	r.Failures = append(r.Failures, failures...)
	for _, one := range rules {
		found, err := seriesOf(one.Expr)
		if err != nil {
			return report{}, fmt.Errorf("%s: %w", one.Alert, err)
		}
		seen := outcomes[one.Alert]
		r.Rules = append(r.Rules, rule{one.Alert, one.Labels["severity"], one.Annotations, found, seen.fired && seen.quiet})
	}
	return r, nil
}

// parse reads an expression as Prometheus does without experimental features.
func parse(expr string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(expr)
}

// seriesOf are the selectors of an expression.
func seriesOf(expr string) ([]series, error) {
	parsed, err := parse(expr)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", expr, err)
	}
	var found []series
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		s := series{Metric: selector.Name, Labels: map[string][]string{}}
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" {
				s.Labels[m.Name] = append(s.Labels[m.Name], values(m)...)
			}
		}
		found = append(found, s)
		return nil
	})
	return found, nil
}
